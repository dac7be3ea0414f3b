"""Which reports an exporter of words and tables can read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpsprobe.errors import ReportError
from mpsprobe_exporters.plain_text import one_line

if TYPE_CHECKING:
    from mpsprobe.schemas import ComparisonReport, CoverageReport, MatrixReport, ProfileReport
    from mpsprobe.schemas.report import Report

    RunReport = CoverageReport | MatrixReport | ProfileReport
    SupportedReport = RunReport | ComparisonReport


def run_report(report: Report, exporter: str) -> RunReport:
    """``report``, when it is of a run and its schema is known here.

    Raises:
        ReportError: it is of another kind, or of a newer version.
    """
    from mpsprobe.schemas import CoverageReport, MatrixReport, ProfileReport

    if isinstance(report, (CoverageReport, MatrixReport, ProfileReport)):
        return report
    raise _refused(report, exporter)


def supported_report(report: Report, exporter: str) -> SupportedReport:
    """The same for what also reads comparisons. Raises as ``run_report``."""
    from mpsprobe.schemas import ComparisonReport

    return report if isinstance(report, ComparisonReport) else run_report(report, exporter)


def _refused(report: Report, exporter: str) -> ReportError:
    return ReportError(
        f"the exporter '{exporter}' cannot read a report of kind '{one_line(report.kind, 100)}', "
        f"version {report.schema_version}",
        "Upgrade mpsprobe and its plugins, or write it as json, which keeps it as it is.",
    )
