"""How many times as fast as the baseline each configuration is, as bars: the comparison that PyTorch's announcement
of MPS made of training and evaluation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mpsprobe_exporters.plain_text import one_line
from mpsprobe_exporters.profile_answer import amount, labels, twin

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
    baseline = report.plan.baseline
    found: list[tuple[tuple[bool, int], ProfileCell, tuple[float, float, float]]] = []
    for cell in report.cells:
        other = twin(report, cell, baseline) if baseline is not None and cell.device != baseline else None
        if other is None or other.step is None or cell.step is None:
            continue
        figures = [(one.median_ns, one.low_ns, one.high_ns) for one in (other.step, cell.step)]
        if min(min(figure) for figure in figures) <= 0:
            continue
        (base, base_low, base_high), (own, own_low, own_high) = figures
        order = (cell.phase != "training", len(found))
        found.append((order, cell, (base / own, base_low / own_high, base_high / own_low)))
    found.sort(key=lambda one: one[0])
    names = labels(report, [cell for _, cell, _ in found])
    return [SpeedUp(label, *figures) for label, (_, _, figures) in zip(names, found, strict=True)]


def title(report: ProfileReport) -> str:
    """The heading above the bars."""
    return f"Times as fast as {one_line(report.plan.baseline or '', 20)}"


def bar(ratio: float, largest: float, width: int) -> str:
    """A bar of ``ratio`` where ``largest`` fills ``width`` columns; never empty, so that nothing looks unmeasured."""
    eighths = max(1, round(8 * width * min(max(ratio / largest, 0.0), 1.0)))
    return FULL * (eighths // 8) + EIGHTHS[eighths % 8].strip()
