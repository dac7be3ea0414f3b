"""Which reports an exporter can read, and with what they were made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mpsprobe.errors import ReportError
from mpsprobe_exporters.plain_text import one_line
from mpsprobe_exporters.plugin import mpsprobe_exporters

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


def supported_report(report: Report, exporter: str) -> Any:
    """``report``, when its kind is one that ``exporter`` declares, and its schema is known here; else an error."""
    kinds = next(declared.kinds for declared in mpsprobe_exporters() if declared.name == exporter)
    if report.kind not in kinds or report.schema_version != 1:
        raise ReportError(
            f"the exporter '{exporter}' cannot read a report of kind '{one_line(report.kind, 100)}', "
            f"version {report.schema_version}",
            "Upgrade mpsprobe and its plugins, or write it as json, which keeps it as it is.",
        )
    return report


def versions(made: Environment | None) -> dict[str, str]:
    """With what a report was made, by name, as programs read it."""
    found = {name: getattr(made, name, None) for name in ("mpsprobe", "torch", "transformers", "python", "platform")}
    return {name: value for name, value in found.items() if value is not None}
