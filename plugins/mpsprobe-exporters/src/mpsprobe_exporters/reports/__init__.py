"""Each kind of report as a document: all words of the reports are here."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mpsprobe.schemas import CoverageReport, MatrixReport
    from mpsprobe_exporters.document import Document


def document_of(report: CoverageReport | MatrixReport) -> Document:
    """``report`` as people read it."""
    from mpsprobe_exporters.reports import coverage, matrix

    return coverage.document(report) if report.kind == "coverage" else matrix.document(report)
