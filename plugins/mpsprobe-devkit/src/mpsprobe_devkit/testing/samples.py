"""One sample report of each kind."""

from __future__ import annotations

from mpsprobe.schemas import Report
from mpsprobe_devkit.testing.checkpoints import sample_checkpoint_report
from mpsprobe_devkit.testing.comparisons import sample_comparison_report
from mpsprobe_devkit.testing.fits import sample_fit_report
from mpsprobe_devkit.testing.profiles import sample_profile_report
from mpsprobe_devkit.testing.releases import sample_ranking_report, sample_upgrade_report
from mpsprobe_devkit.testing.reports import (
    sample_coverage_report,
    sample_matrix_report,
    sample_several_report,
    sample_unknown_report,
)


def sample_reports() -> dict[str, Report]:
    """Every sample by its kind."""
    reports: list[Report] = [
        sample_coverage_report(),
        sample_matrix_report(),
        sample_several_report(),
        sample_profile_report(),
        sample_comparison_report(),
        sample_checkpoint_report(),
        sample_fit_report(),
        sample_upgrade_report(),
        sample_ranking_report(),
        sample_unknown_report(),
    ]
    return {report.kind: report for report in reports}
