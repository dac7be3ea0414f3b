"""A report in a few words, and the words as a badge."""

from __future__ import annotations

from collections.abc import Mapping

from mpsprobe.errors import ReportError
from mpsprobe.schemas import CoverageReport, MatrixReport, ProfileReport, Report

from mpsprobe_badge.drawing import BLUE, GREEN, GREY, ORANGE, RED, Badge

COLOURS = {"unsupported": RED, "missing": RED, "unknown": GREY, "fallback": ORANGE}
"""Of each verdict that is not native, the worst first."""
UNITS = (("s", 1e9), ("ms", 1e6), ("µs", 1e3), ("ns", 1.0))


class BadgeExporter:
    """Satisfies ``mpsprobe.protocols.Exporter``."""

    def render(self, report: Report) -> str:
        """The badge as SVG.

        Raises:
            ReportError: there is no badge for reports of this kind.
        """
        return badge_of(report).svg()


def badge_of(report: Report) -> Badge:
    """What the badge of ``report`` says. Raises as ``render``."""
    if isinstance(report, CoverageReport):
        return _coverage(report)
    if isinstance(report, MatrixReport):
        since = report.native_since
        return Badge("MPS", f"native since {since}", GREEN) if since else Badge("MPS", "not native yet", RED)
    if isinstance(report, ProfileReport):
        return _profile(report)
    raise ReportError(f"there is no badge for a report of the kind {report.kind!r}")


def _coverage(report: CoverageReport) -> Badge:
    label = f"MPS, torch {report.target.torch}"
    if report.failure is not None:
        return Badge(label, f"stopped in {report.failure.phase}", RED)
    counts: Mapping[str, int] = report.summary.operators_by_verdict
    found = [verdict for verdict in COLOURS if counts.get(verdict)]
    if found:
        return Badge(label, ", ".join(f"{counts[one]} {one}" for one in found), COLOURS[found[0]])
    if report.not_judged:
        return Badge(label, f"{len(report.not_judged)} not judged", GREY)
    if report.advisories:
        return Badge(label, f"{len(report.advisories)} known wrong", ORANGE)
    return Badge(label, "all native", GREEN)


def _profile(report: ProfileReport) -> Badge:
    """The first configuration: a badge has no room for more."""
    if not report.cells:
        return Badge("mpsprobe", "nothing measured", GREY)
    cell = report.cells[0]
    label = f"{cell.workload} on {cell.device}"
    if cell.failure is not None or cell.step is None:
        return Badge(label, "failed" if cell.failure is not None else "not timed", RED if cell.failure else GREY)
    return Badge(label, f"{duration(cell.step.median_ns)}/step", BLUE)


def duration(ns: float) -> str:
    """Three digits and the unit in which they are readable."""
    unit, size = next((one for one in UNITS if ns >= one[1]), UNITS[-1])
    return f"{ns / size:.3g} {unit}" if ns / size < 1000 else f"{ns / size:.0f} {unit}"
