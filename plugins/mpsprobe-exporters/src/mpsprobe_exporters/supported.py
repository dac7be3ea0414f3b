"""Which reports an exporter of words and tables can read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpsprobe.errors import ReportError
from mpsprobe_exporters.plain_text import one_line

if TYPE_CHECKING:
    from mpsprobe.schemas import ComparisonReport, CoverageReport, MatrixReport, ProfileReport
    from mpsprobe.schemas.report import Report

    SupportedReport = CoverageReport | MatrixReport | ProfileReport | ComparisonReport


def supported_report(report: Report, exporter: str) -> SupportedReport:
    """``report``, when its schema is known here.

    Raises:
        ReportError: it is of another kind, or of a newer version.
    """
    from mpsprobe.schemas import UnknownReport

    if isinstance(report, UnknownReport):
        raise ReportError(
            f"the exporter '{exporter}' cannot read a report of kind '{one_line(report.kind, 100)}', "
            f"version {report.schema_version}",
            "Upgrade mpsprobe and its plugins, or write it as json, which keeps it as it is.",
        )
    return report


def profile_of(report: Report, exporter: str) -> ProfileReport:
    """``report`` as a profile. Raises as ``supported_report``, and if it is none."""
    read = supported_report(report, exporter)
    if read.kind != "profile":
        raise ReportError(f"the exporter '{exporter}' reads profiles, not '{read.kind}'", "Make one: mpsprobe profile")
    return read
