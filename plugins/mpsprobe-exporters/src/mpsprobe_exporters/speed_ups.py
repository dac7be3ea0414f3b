"""How many times as fast as the baseline each configuration is, as bars: the comparison that PyTorch's announcement
of MPS made of training and evaluation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mpsprobe_exporters.plain_text import one_line
from mpsprobe_exporters.profile_answer import labels, twin
from mpsprobe_exporters.units import BEYOND, amount

if TYPE_CHECKING:
    from mpsprobe.schemas import ProfileCell, ProfileReport

EIGHTHS = " ▏▎▍▌▋▊▉"
FULL = "█"
MOST = 40
NARROWEST, WIDEST = 8, 40


@dataclass(frozen=True, slots=True)
class SpeedUp:
    """One bar: the baseline's median step ÷ this one's. ``low`` and ``high`` are what both intervals allow."""

    label: str
    ratio: float
    low: float
    high: float

    @property
    def words(self) -> str:
        """``6.46 x (6.31 to 6.60)``."""
        return f"{amount(self.ratio)} x ({amount(self.low)} to {amount(self.high)})"


def speed_ups(report: ProfileReport) -> list[SpeedUp]:
    """A bar for each configuration that the baseline ran too, without the baseline itself; phase by phase."""
    compared = ((cell, ratios(report, cell)) for cell in report.cells)
    found = [(cell, figures) for cell, figures in compared if figures is not None]
    found.sort(key=lambda one: one[0].phase != "training")
    names = labels(report, [cell for cell, _ in found])
    return [SpeedUp(label, *figures) for label, (_, figures) in zip(names, found, strict=True)]


def ratios(report: ProfileReport, cell: ProfileCell) -> tuple[float, float, float] | None:
    """How many times as fast as the baseline, with the range that both intervals allow; of the baseline ``None``."""
    baseline = report.plan.baseline
    other = twin(report, cell, baseline) if baseline is not None and cell.device != baseline else None
    if other is None or other.step is None or cell.step is None:
        return None
    base, own = other.step, cell.step
    if min(base.median_ns, base.low_ns, base.high_ns, own.median_ns, own.low_ns, own.high_ns) <= 0:
        return None
    found = (base.median_ns / own.median_ns, base.low_ns / own.high_ns, base.high_ns / own.low_ns)
    return min(found[0], BEYOND), min(found[1], BEYOND), min(found[2], BEYOND)


def title(report: ProfileReport) -> str:
    """The heading above the bars."""
    return f"Times as fast as {one_line(report.plan.baseline or '', 20)}"


def bar(ratio: float, largest: float, width: int) -> str:
    """A bar of ``ratio`` where ``largest`` fills ``width`` columns; never empty, so that nothing looks unmeasured."""
    eighths = max(1, round(8 * width * min(max(ratio / largest, 0.0), 1.0)))
    return FULL * (eighths // 8) + EIGHTHS[eighths % 8].strip()
