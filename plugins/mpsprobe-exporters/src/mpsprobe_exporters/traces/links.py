"""The events of a trace as torch-tb-profiler joins them: modules, operators, launches and kernels by identities."""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from mpsprobe_exporters.traces.encoding import CATEGORIES, LONGEST_NS, SEPARATOR, STEP_PREFIX, pairs, text
from mpsprobe_exporters.traces.slices import Slices, kept

if TYPE_CHECKING:
    from mpsprobe.schemas import Trace
    from mpsprobe_exporters.traces.layout import Row

# ``runtime`` is the reader's only name of a launch, and it knows no fallbacks. A phase gets a name that it does not
# know, because it would count every annotation as work of the CPU; the trace view shows it all the same.
READ_AS = {**CATEGORIES, "launch": "runtime", "fallback": "cpu_op", "phase": "phase"}
# Facts of a kernel that the reader's views show, where a trace has them.
KERNEL_FACTS = ("est. achieved occupancy %", "blocks per SM", "registers per thread", "shared memory")
_OPERATOR = ("External id", "Input Dims", "Input type", "Python id", "Python parent id", "Python module id", "device")
TAKEN = frozenset({"correlation", *_OPERATOR, *KERNEL_FACTS})
OPERATORS = frozenset({"operator", "fallback"})
ON_DEVICE = frozenset({"kernel", "copy"})
STEP_NAME = re.compile(rf"{STEP_PREFIX}\d{{1,9}}", re.ASCII)
SHAPES = re.compile(r"\[[\d, ]*\](?: \[[\d, ]*\])*", re.ASCII)


class Open(NamedTuple):
    operator: int  # that an open event is, or is in; 0: none
    module: int


def events(
    trace: Trace, slices: Slices, rows: Sequence[Row], devices: Sequence[int], no_steps: frozenset[int]
) -> Iterator[str]:
    """Each event, with what it belongs to; ``rows`` and ``devices`` by track, ``no_steps`` as ``swallowed`` has it."""
    details = kept(lambda index: pairs(trace.details[index], TAKEN))
    links = _Links()
    on_host = slices.on_host
    for name, category, track, detail, flow, start, duration in slices.columns():
        kind = trace.categories[category]
        begin = min(start - slices.base_ns, LONGEST_NS)
        # A step of no length is a division by zero in the reader.
        end = min(begin + (max(duration, 1) if kind == "step" else duration), LONGEST_NS + 1)
        row = rows[track]
        while row.ends and row.ends[-1] <= begin:
            row.ends.pop()
            row.contexts.pop()
        known = trace.details[detail] if detail >= 0 else {}
        cat = READ_AS[kind]
        if kind == "step" and start in no_steps:
            kind, cat = "other", "step"
        if kind in ON_DEVICE and on_host[track]:  # the reader asks each of these for its device
            kind = cat = "other"
        shown = links.name(kind, trace.names[name], known)
        around = row.contexts[-1] if row.contexts else Open(0, 0)
        context, inside = links.enter(around, kind, shown, known, flow)
        if row.ends and end > row.ends[-1]:
            place = row.lane_for(begin, end)
        else:
            row.ends.append(end)
            row.contexts.append(context)
            place = row.place
        device = "" if on_host[track] else f'"device":{devices[track]}'
        args = ",".join(part for part in (inside, device, details(detail) if detail >= 0 else "") if part)
        drawn = slices.arrow(flow, on_host[track])
        arrow = f'{drawn}{place},"ts":{exact(begin)}}}' if drawn else ""
        yield f'{event(shown, cat, place, begin, end)[:-1]},"args":{{{args}}}}}{arrow}'


def event(name: str, category: str, place: str, begin: int, end: int) -> str:
    cat, name = text(category), text(name)
    return f'{SEPARATOR}{{"ph":"X","cat":{cat},"name":{name},{place},"ts":{exact(begin)},"dur":{exact(end, begin)}}}'


def exact(nanoseconds: int, begin: int = 0) -> str:
    """Nanoseconds since ``begin`` in 1024ths of a microsecond, rounded, as microseconds; order and equality are kept.

    A reader that adds a start and a duration as floating-point numbers gets exactly the end that was meant: multiples
    of 2⁻¹⁰ are exact, multiples of 0.001 are not, and an event that ends with the one around it would stick out.
    """
    return repr(((nanoseconds * 128 + 62) // 125 - (begin * 128 + 62) // 125) / 1024)


class _Links:
    """Numbers operators, module calls and launches in the order in which they are written."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._module_ids: dict[str, int] = {}
        self._launched: dict[int, int] = {}

    def name(self, category: str, name: str, detail: Mapping[str, str]) -> str:
        """``name`` so that the reader takes the event for what it is, and shows which module it is."""
        if category == "step":
            self._counts["step"] += 1
            return name if STEP_NAME.fullmatch(name) else f"{STEP_PREFIX}{self._counts['step'] - 1}"
        if category == "module":
            path, kind = detail.get("module", ""), detail.get("type", "")
            # A path of torch.profiler's is the type and a number.
            both = path and kind and not path.startswith(kind)
            shown = f"{path} ({kind})" if both else path or kind or name.removeprefix("nn.Module: ")
            phase = detail.get("phase", "forward")
            return f"nn.Module: {shown}" + (f", {phase}" if phase != "forward" else "")
        return f" {name}" if name.startswith(STEP_PREFIX) else name

    def enter(self, around: Open, category: str, name: str, detail: Mapping[str, str], flow: int) -> tuple[Open, str]:
        """The event's own context, and the inside of its ``args`` that says who it belongs to."""
        if category in OPERATORS:
            self._counts["operator"] += 1
            operator = self._counts["operator"]
            return Open(operator, around.module), f'"External id":{operator}{_inputs(detail)}'
        if category == "module":
            self._counts["module"] += 1
            module, identity = self._counts["module"], self._module_ids.setdefault(name, len(self._module_ids))
            ids = f'"Python parent id":{around.module or "null"},"Python module id":{identity}'
            return Open(around.operator, module), f'"Python id":{module},{ids}'
        if category == "launch":
            # One without a kernel gets a number of its own: the reader would give it all kernels without a launch.
            self._counts["launch"] += 1
            self._launched[flow] = around.operator
            return around, f'"External id":{around.operator},"correlation":{flow or -self._counts["launch"]}'
        if category in ON_DEVICE:
            joined = f'"External id":{self._launched.get(flow, 0)}' + (f',"correlation":{flow}' if flow else "")
            facts = [(fact, _number(detail[fact])) for fact in KERNEL_FACTS if fact in detail]
            return around, joined + "".join(f",{text(fact)}:{value!r}" for fact, value in facts if value is not None)
        return around, ""


def _inputs(detail: Mapping[str, str]) -> str:
    shapes, types = detail.get("shapes", ""), detail.get("dtypes", "")
    dims = f',"Input Dims":[{shapes.replace("] [", "],[")}]' if SHAPES.fullmatch(shapes) else ""
    return dims + (f',"Input type":[{",".join(map(text, types.split()))}]' if types else "")


def _number(value: str) -> float | None:
    try:
        number = float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def swallowed(trace: Trace) -> frozenset[int]:
    """When the steps begin that have no length in the eyes of the reader, which loses a run with one of them.

    Its rule: where any step started kernels, a step begins when the work of the device for the ones before it has
    ended, and ends with its own. One that ends on the host before that, and starts nothing that takes longer, has no
    length left: a common sight where the host runs ahead of the device.
    """
    kinds = [trace.categories[kind] for kind in trace.category]
    columns = list(zip(kinds, trace.flow, trace.start_ns, trace.duration_ns, strict=True))
    steps = sorted((start, start + max(spent, 1)) for kind, _, start, spent in columns if kind == "step")
    ends: dict[int, int] = {}
    for kind, flow, start, spent in columns:
        if flow and kind in ON_DEVICE:
            ends[flow] = max(ends.get(flow, start), start + spent)
    device_ends: dict[int, int] = {}
    for kind, flow, start, spent in columns:
        number = bisect_right(steps, start, key=lambda step: step[0]) - 1
        if kind == "launch" and flow in ends and number >= 0 and start + spent <= steps[number][1]:
            device_ends[number] = max(device_ends.get(number, ends[flow]), ends[flow])
    lost = set()
    before = steps[0][0] if steps else 0
    for number, (begin, end) in enumerate(steps if device_ends else ()):
        latest = max(end, device_ends.get(number, end))
        if latest <= max(before, begin):
            lost.add(begin)
        else:
            before = latest
    return frozenset(lost)
