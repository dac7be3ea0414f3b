"""What one configuration comes to, as a row of tiles."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mpsprobe_exporters.html.markup import Markup, element
from mpsprobe_exporters.html.scales import TIMES, bounded
from mpsprobe_exporters.plain_text import one_line, plural
from mpsprobe_exporters.speed_ups import ratios
from mpsprobe_exporters.units import amount, byte_size, duration, percent

if TYPE_CHECKING:
    from mpsprobe.schemas import ProfileCell, ProfileReport

Tile = tuple[str, str, str]


def tiles(report: ProfileReport, cell: ProfileCell) -> Markup:
    """Median step, throughput, first call, memory, speed-up, fallbacks: those that are known."""
    made = (
        element("div", element("dt", what), element("dd", value, element("small", beside) if beside else None))
        for what, value, beside in _tiles(report, cell)
    )
    return element("dl", *made, class_="tiles")


def _tiles(report: ProfileReport, cell: ProfileCell) -> Iterator[Tile]:
    step = cell.step
    if step is not None:
        interval = f"{duration(step.low_ns)} to {duration(step.high_ns)}, spread {percent(step.spread)}"
        yield "Median step", duration(step.median_ns), interval
    for one in cell.throughput[:2]:
        yield "Throughput", f"{amount(one.per_second)} {one.unit}/s", f"{amount(one.low)} to {amount(one.high)}"
    faster = ratios(report, cell)
    if faster is not None:
        yield f"Against {one_line(report.plan.baseline or '', 20)}", f"{amount(faster[0])} {TIMES}", _range(faster)
    if cell.first_call_ns:
        first = duration(bounded(max(cell.first_call_ns)))
        several = len(cell.first_call_ns)
        yield "First call", first, f"longest of {several:,} processes" if several > 1 else "with its compilations"
    if cell.memory is not None:
        peak = cell.memory.peak_allocated_bytes
        source = "allocator's peak" if cell.memory.source == "allocator" else "largest sample"
        what = "allocated"
        if peak is None:
            peak, what = cell.memory.peak_process_bytes, "process"
        if peak is not None:
            yield f"Memory, {what}", byte_size(peak), source
    if cell.fallbacks:
        observed = sum(one.duration_ns or 0 for one in cell.fallbacks)
        spent = f"{duration(bounded(observed))} a step" if observed else "predicted"
        yield "Leaves MPS", plural(len(cell.fallbacks), "operator"), spent


def _range(found: tuple[float, float, float]) -> str:
    return f"as fast; {amount(found[1])} to {amount(found[2])} {TIMES}"
