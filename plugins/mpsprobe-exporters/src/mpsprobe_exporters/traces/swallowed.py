"""Steps of no length in the eyes of torch-tb-profiler: it loses a run with one of them (a division by zero).

Its rule: where any step started kernels, a step begins when the work of the device for the ones before it has ended,
and ends with its own. One that ends on the host before that, and starts nothing that takes longer, has no length left:
a common sight where the host runs ahead of the device.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from mpsprobe_exporters.traces.links import ON_DEVICE

if TYPE_CHECKING:
    from mpsprobe.schemas import Trace


def swallowed(trace: Trace) -> frozenset[int]:
    """When they begin, in ns of the trace."""
    kinds = trace.categories
    events = list(zip(trace.category, trace.flow, trace.start_ns, trace.duration_ns, strict=True))
    steps = sorted((start, start + max(spent, 1)) for kind, _, start, spent in events if kinds[kind] == "step")
    ends: dict[int, int] = {}
    for kind, flow, start, spent in events:
        if flow and kinds[kind] in ON_DEVICE:
            ends[flow] = max(ends.get(flow, start), start + spent)
    begins = [begin for begin, _ in steps]
    device_end: dict[int, int] = {}
    for kind, flow, start, spent in events:
        if flow in ends and kinds[kind] == "launch":
            number = bisect_right(begins, start) - 1
            if number >= 0 and start + spent <= steps[number][1]:
                device_end[number] = max(device_end.get(number, ends[flow]), ends[flow])
    if not device_end:
        return frozenset()
    found = set()
    before = begins[0]
    for number, (begin, end) in enumerate(steps):
        latest = max(end, device_end.get(number, end))
        if latest <= max(before, begin):
            found.add(begin)
        else:
            before = latest
    return frozenset(found)
