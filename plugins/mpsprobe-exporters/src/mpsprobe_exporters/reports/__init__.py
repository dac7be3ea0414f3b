"""Each kind of report as a document: all words of the reports are here."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mpsprobe_exporters.document import Document
    from mpsprobe_exporters.supported import SupportedReport


def document_of(report: SupportedReport) -> Document:
    """``report`` as people read it."""
    from mpsprobe_exporters.reports import (
        checkpoint,
        comparison,
        coverage,
        largest,
        matrix,
        profile,
        ranking,
        several,
        upgrade,
    )

    if report.kind == "profile":
        return profile.document(report)
    if report.kind == "checkpoint":
        return checkpoint.document(report)
    if report.kind == "fit":
        return largest.document(report)
    if report.kind == "upgrade":
        return upgrade.document(report)
    if report.kind == "ranking":
        return ranking.document(report)
    if report.kind == "comparison":
        return comparison.document(report)
    if report.kind == "coverage-several":
        return several.document(report)
    return coverage.document(report) if report.kind == "coverage" else matrix.document(report)
