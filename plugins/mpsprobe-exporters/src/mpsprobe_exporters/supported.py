"""Which reports an exporter can read, and with what they were made."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from mpsprobe.errors import ReportError
from mpsprobe_exporters.kinds import READ
from mpsprobe_exporters.plain_text import one_line

if TYPE_CHECKING:
    from mpsprobe import schemas
    from mpsprobe.schemas.report import Report
    from mpsprobe.schemas.run import Environment

    AnyReport = schemas.CoverageReport | schemas.MatrixReport
    JudgedReport = AnyReport | schemas.SeveralReport
    Measured = schemas.ProfileReport | schemas.ComparisonReport
    Asked = schemas.CheckpointReport | schemas.FitReport | schemas.UpgradeReport | schemas.RankingReport
    Compared = schemas.VerificationReport | schemas.PrecisionReport
    SupportedReport = JudgedReport | Measured | Asked | Compared


def supported_report(report: Report, exporter: str) -> SupportedReport:
    """``report``, when its schema is known here; else an error in words."""
    if report.kind not in READ or report.schema_version != 1:
        raise ReportError(
            f"the exporter '{exporter}' cannot read a report of kind '{one_line(report.kind, 100)}', "
            f"version {report.schema_version}",
            "Upgrade mpsprobe and its plugins, or write it as json, which keeps it as it is.",
        )
    return cast("SupportedReport", report)


def profile_of(report: Report, exporter: str) -> schemas.ProfileReport:
    read = supported_report(report, exporter)
    if read.kind != "profile":
        raise ReportError(f"the exporter '{exporter}' reads profiles, not '{read.kind}'", "Make one: mpsprobe profile")
    return read


def judged_report(report: Report, exporter: str) -> JudgedReport:
    read = supported_report(report, exporter)
    if read.kind == "coverage" or read.kind == "coverage-matrix" or read.kind == "coverage-several":
        return read
    raise ReportError(f"the exporter '{exporter}' reads coverage, not '{read.kind}'", "Make one: mpsprobe coverage")


def versions(made: Environment | None) -> dict[str, str]:
    """With what a report was made, by name, as programs read it."""
    found = {name: getattr(made, name, None) for name in ("mpsprobe", "torch", "transformers", "python", "platform")}
    return {name: value for name, value in found.items() if value is not None}
