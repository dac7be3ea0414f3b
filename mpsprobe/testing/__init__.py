"""Help for the tests of mpsprobe and of its plugins: sample reports, fakes, the installed command."""

from __future__ import annotations

from mpsprobe.testing.commands import CommandResult, run_cli
from mpsprobe.testing.comparisons import sample_comparison_report, sample_coverage_comparison
from mpsprobe.testing.contracts import Broken, BrokenClause, broken_clauses, exporter_contract
from mpsprobe.testing.fakes import FakeProgress, FakeScanner, FakeWorkload
from mpsprobe.testing.packages import install_plugin
from mpsprobe.testing.profiles import sample_cell, sample_profile_report, sample_trace
from mpsprobe.testing.reports import sample_coverage_report, sample_matrix_report, sample_unknown_report
from mpsprobe.testing.samples import sample_reports

__all__ = [
    "Broken",
    "BrokenClause",
    "CommandResult",
    "FakeProgress",
    "FakeScanner",
    "FakeWorkload",
    "broken_clauses",
    "exporter_contract",
    "install_plugin",
    "run_cli",
    "sample_cell",
    "sample_comparison_report",
    "sample_coverage_comparison",
    "sample_coverage_report",
    "sample_matrix_report",
    "sample_profile_report",
    "sample_reports",
    "sample_trace",
    "sample_unknown_report",
]
