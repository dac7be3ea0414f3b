"""Counters of a trace: which curves there are, and one of memory that a chart can take."""

from __future__ import annotations

from bisect import bisect_right

from mpsprobe.importing.columns import Columns
from mpsprobe.schemas.profile import MemoryCurve

Points = list[tuple[int, float]]
INSTANTS = "[memory] "  # prefix of values from allocations, which a counter of that name has too
MOST_POINTS = 1000  # of a curve that is drawn


def by_name(columns: Columns, cpu: bool) -> dict[str, Points]:
    """Each curve in the order of time. ``cpu``: the host's own memory is the device's."""
    found: dict[str, Points] = {}
    # Counters last: where both tell the same, the counter stands.
    for full in sorted(columns.counters, key=lambda name: not name.startswith(INSTANTS)):
        name = full.removeprefix(INSTANTS)
        if cpu and full.startswith(INSTANTS):
            name = name.removeprefix("cpu_")
        info = columns.counters[full]
        found[name] = sorted(zip(info.times_ns, info.values, strict=True))
    return found


def drawn(allocated: Points, reserved: Points | None, base_ns: int) -> MemoryCurve:
    """The curve from ``base_ns`` on, the highest point of each of ``MOST_POINTS`` stretches."""
    after = [(at - base_ns, value) for at, value in allocated if at >= base_ns]
    width = max(1, -(-len(after) // MOST_POINTS))
    points = [max(after[at : at + width], key=lambda one: one[1]) for at in range(0, len(after), width)]
    known = [at for at, _ in reserved or ()]
    last = [max(bisect_right(known, at + base_ns) - 1, 0) for at, _ in points]
    return MemoryCurve(
        times_ns=[at for at, _ in points],
        allocated_bytes=[round(value) for _, value in points],
        reserved_bytes=[round(reserved[index][1]) for index in last] if reserved else [],
    )
