"""Which backend a coverage report is about, in words. Those for MPS stand in every format; others are named here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpsprobe_exporters.plain_text import one_line

if TYPE_CHECKING:
    from mpsprobe.schemas import BackendTarget, CoverageReport, MatrixReport, Target

    AnyReport = CoverageReport | MatrixReport

MPS = "mps"
LONGEST = 40  # characters of a backend's name
TABLE = "Kernel table: {}"


def target(report: AnyReport) -> Target | None:
    """What was judged: of a matrix, the newest release; None for a matrix without releases."""
    if report.kind == "coverage":
        return report.target
    return report.releases[-1].target if report.releases else None


def is_mps(judged: Target | None) -> bool:
    """Whether the words for MPS hold; they do for a report that judged nothing."""
    return judged is None or judged.backend == MPS


def label(judged: Target | None) -> str:
    """The backend as people write it: ``MPS``, ``XPU``."""
    if judged is None or is_mps(judged):
        return "MPS"
    other = _other(judged)
    return one_line(judged.backend if other is None else other.label, LONGEST)


def on_release(judged: Target | None, release: str) -> str:
    """``torch 2.13.0``, and for another backend than MPS ``XPU with torch 2.13.0``."""
    told = f"torch {one_line(release)}"
    return told if is_mps(judged) else f"{label(judged)} with {told}"


def notes(report: AnyReport) -> list[str]:
    """What a reader should know: of the workload, and of a backend other than MPS."""
    other = _other(target(report))
    found = [one_line(note, 400) for note in report.workload.notes]
    if other is None:
        return found
    return [*found, TABLE.format(one_line(other.source, 400)), *(one_line(note, 400) for note in other.notes)]


def _other(judged: Target | None) -> BackendTarget | None:
    from mpsprobe.schemas import BackendTarget

    return judged if isinstance(judged, BackendTarget) else None
