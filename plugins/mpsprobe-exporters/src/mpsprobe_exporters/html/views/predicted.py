"""Predicted memory: what is alive over the step, with its phases and the limits of the Mac."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from mpsprobe_exporters.html import figures, scales
from mpsprobe_exporters.html.figures import Line, Tip
from mpsprobe_exporters.html.markup import Markup
from mpsprobe_exporters.html.scales import Axis, bounded
from mpsprobe_exporters.plain_text import one_line
from mpsprobe_exporters.units import byte_size

if TYPE_CHECKING:
    from mpsprobe.schemas import CoverageReport, MemoryFit

NEAR = 0.25  # a limit is drawn where the peak is at least this share of it: else it would press the curve to the ground
NAMED = 0.12  # of the width that a phase needs for its name
MOST_PHASES = 12  # of a generation, each token is one


def predicted(report: CoverageReport) -> Markup | None:
    """The curve; None where there is none."""
    memory = report.memory
    if memory is None or not memory.curve:
        return None
    heights = [bounded(one.bytes) for one in memory.curve]
    levels = [(bounded(at), said) for at, said in _limits(memory.fit) if max(heights) >= NEAR * at]
    y = scales.axis([*heights, *(at for at, _ in levels)], "bytes")
    count = len(heights)
    places = [(at / count, y.place(one)) for index, one in enumerate(heights) for at in (index, index + 1)]
    begins, ticks, start = [], [], 0
    for phase, stretch in groupby(memory.curve, key=lambda one: one.phase):
        length = len(list(stretch))
        begins += [start / count] if start else []
        if phase and length >= NAMED * count:
            ticks.append((start + length / 2, one_line(phase, 20)))
        start += length
    tips = [
        Tip((index + 0.5) / count, f"{one_line(one.phase, 20) or 'before the step'}: up to {byte_size(one.bytes)}")
        for index, one in enumerate(memory.curve)
    ]
    title = f"Memory that is alive over the step, at most {byte_size(memory.peak_bytes)}"
    title += "; dashed, by the published figures: what Metal advises, and where PyTorch raises" if levels else ""
    x = Axis(0, count, ticks)
    return figures.plot(
        title,
        x,
        y,
        [Line("alive", 1, places)],
        tips=tips,
        levels=[(y.place(at), said) for at, said in levels],
        divided=begins if len(begins) <= MOST_PHASES else [],
    )


def _limits(fit: MemoryFit | None) -> list[tuple[float, str]]:
    """By the smallest published figures, and by the largest where these differ, with their names."""
    if fit is None:
        return []
    found: list[tuple[float, str]] = []
    for said, name in (("advised", "recommended_bytes"), ("raises", "allowed_bytes")):
        low, high = getattr(fit.low, name), getattr(fit.high, name)
        if low is not None:
            found.append((low, said))
        if high is not None and high != low:
            found.append((high, ""))
    return found
