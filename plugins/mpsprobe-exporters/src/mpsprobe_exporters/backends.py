"""Which backend a coverage report is about, in words. Those for MPS stand in every format; others are named here."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from mpsprobe_exporters.plain_text import one_line

if TYPE_CHECKING:
    from mpsprobe.schemas import BackendTarget, CoverageReport, MatrixReport, ProfileReport, Target

LONGEST = 40  # characters of a backend's name
TABLE = "Kernel table: {}"


def target(report: CoverageReport | MatrixReport) -> Target | None:
    """What was judged: of a matrix, the newest release; None for a matrix without releases."""
    if report.kind == "coverage":
        return report.target
    return report.releases[-1].target if report.releases else None


def release(judged: Target | None) -> str:
    return judged.version if judged is not None else ""


def other(judged: Target | None) -> str:
    """Another backend than MPS as people write it (``XPU``); empty for MPS, and for a report that judged nothing."""
    known = _not_mps(judged)
    return one_line(known.label or known.backend, LONGEST) if known is not None else ""


def label(judged: Target | None) -> str:
    return other(judged) or "MPS"


def profiled(report: ProfileReport) -> str:
    """The backend that a profile's fallbacks leave, as people write it: ``MPS``, ``tensorflow-metal``."""
    return "MPS" if report.backend == "mps" else one_line(report.backend, LONGEST)


def on_release(judged: Target | None) -> str:
    """``torch 2.13.0``, for another backend than MPS ``XPU with torch 2.13.0``; ``tensorflow-metal 1.2.0``."""
    prefix = f"{other(judged)} with " if other(judged) and software(judged) == "torch" else ""
    return f"{prefix}{software(judged)} {one_line(release(judged))}"


def software(judged: Target | None) -> str:
    """What a release is one of: ``torch``, or the plugin of another framework."""
    return one_line(judged.software, LONGEST) if judged is not None else "torch"


def notes(judged: Target | None) -> list[str]:
    known = _not_mps(judged)
    return [TABLE.format(one_line(known.source, 400)), *known.notes] if known is not None else []


def _not_mps(judged: Target | None) -> BackendTarget | None:
    return cast("BackendTarget", judged) if judged is not None and judged.backend != "mps" else None
