"""Curves of a trace: memory and power over time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from mpsprobe_exporters.traces.encoding import LONGEST_NS, exact, text, thousandths, ticks
from mpsprobe_exporters.traces.layout import SEPARATOR

if TYPE_CHECKING:
    from mpsprobe.schemas import MemoryCurve

CURVES = ("allocated_bytes", "reserved_bytes", "process_bytes")
CPU_PREFIX = "cpu_"  # of the names of curves that are the host's in the trace of another device
ON_CPU = f"{CPU_PREFIX}allocated_bytes"
AT_FIRST = "(memory that is held at first)"
LARGEST = 2.0**62  # bytes


class Curve(NamedTuple):
    """A quantity over time; the columns are equally long."""

    name: str
    times_ns: Sequence[int]
    values: Sequence[float]


def memory(curve: MemoryCurve) -> list[Curve]:
    """The columns of ``curve`` that have values."""
    columns = ((name, getattr(curve, name)) for name in CURVES)
    return [Curve(name, curve.times_ns, values) for name, values in columns if values]


def lines(curves: Iterable[Curve], process: int, base_ns: int) -> Iterator[str]:
    """Counter events, each behind a separator; of two curves of one name the second gets a number."""
    seen: dict[str, int] = {}
    for curve in curves:
        seen[curve.name] = number = seen.get(curve.name, 0) + 1
        name = text(curve.name if number == 1 else f"{curve.name} ({number})")
        for at, value in zip(curve.times_ns, curve.values, strict=False):
            if -math.inf < value < math.inf:
                shown = thousandths(_time(at, base_ns))
                yield (
                    f'{SEPARATOR}{{"ph":"C","name":{name},"pid":{process},"tid":0,"ts":{shown},'
                    f'"args":{{"value":{value!r}}}}}'
                )


def allocations(
    curves: Sequence[Curve], place: str, base_ns: int, cpu: bool, new_place: Callable[[], str]
) -> Iterator[str]:
    """What torch-tb-profiler draws as memory: an allocation or release for each change of a curve.

    It knows the types of device 0 and 1 only: ``cpu`` says that allocated bytes are the host's, else they are drawn
    for GPU0. Each change is an allocation of its own, so an operator is charged with what changed while it ran.

    It draws a device only if an operator is charged there. What is held at first belongs to none, so a stand-in of no
    length gets it, on a row that ``new_place`` makes.
    """
    if not any(one.name.endswith("allocated_bytes") for one in curves):
        # Torch does not count what the CPU holds: there the footprint of the whole process stands for it.
        curves = [one._replace(name=ON_CPU) for one in curves if one.name == "process_bytes"]
    for prefix, on_host in ((CPU_PREFIX, True), ("", cpu)):
        allocated = next((one for one in curves if one.name == f"{prefix}allocated_bytes"), None)
        if allocated is None:
            continue
        reserved = next((one for one in curves if one.name == f"{prefix}reserved_bytes"), None)
        where = '"Device Type":0,"Device Id":-1' if on_host else '"Device Type":1,"Device Id":0'
        yield from _changes(allocated, reserved, (place, new_place), where, base_ns)


def _changes(
    allocated: Curve, reserved: Curve | None, places: tuple[str, Callable[[], str]], where: str, base_ns: int
) -> Iterator[str]:
    held = _points(reserved) if reserved is not None else []
    before, position, started = 0, 0, False
    for index, (at, value) in enumerate(_points(allocated)):
        while position < len(held) - 1 and held[position + 1][0] <= at:
            position += 1
        reserving = held[position][1] if held else 0  # torch writes it so; without one no curve is drawn
        shown = exact(ticks(_time(at, base_ns)))
        place = places[0]
        if value > 0 and not started:
            started, place = True, places[1]()
            length = exact(ticks(_time(at, base_ns) + 1) - ticks(_time(at, base_ns)))
            yield (
                f'{SEPARATOR}{{"ph":"X","cat":"cpu_op","name":"{AT_FIRST}",{place},"ts":{shown},"dur":{length},'
                f'"args":{{"placeholder":"yes"}}}}'
            )
        yield (
            f'{SEPARATOR}{{"ph":"i","s":"t","cat":"cpu_instant_event","name":"[memory]",{place},"ts":{shown},'
            f'"args":{{{where},"Addr":{index + 1},"Bytes":{value - before},"Total Allocated":{value},'
            f'"Total Reserved":{reserving}}}}}'
        )
        before = value


def _points(curve: Curve) -> list[tuple[int, int]]:
    pairs = zip(curve.times_ns, curve.values, strict=False)
    return sorted((at, round(min(value, LARGEST))) for at, value in pairs if 0 <= value < math.inf)


def _time(at: int, base_ns: int) -> int:
    return min(max(at - base_ns, 0), LONGEST_NS)
