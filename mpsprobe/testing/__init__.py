"""Help for the tests of mpsprobe and of its plugins: sample reports, fakes, the installed command."""

from __future__ import annotations

from mpsprobe.testing.commands import CommandResult, run_cli
from mpsprobe.testing.comparisons import sample_comparison_report, sample_coverage_comparison
from mpsprobe.testing.contracts import (
    Broken,
    BrokenClause,
    broken_clauses,
    device_contract,
    exporter_contract,
    probe_contract,
    runner_contract,
    scanner_contract,
    workload_contract,
)
from mpsprobe.testing.fakes import FakeClock, FakeDevice, FakeProbe, FakeProgress, FakeScanner, FakeSteps, FakeWorkload
from mpsprobe.testing.packages import install_plugin
from mpsprobe.testing.profiles import sample_cell, sample_profile_report, sample_trace
from mpsprobe.testing.reports import sample_coverage_report, sample_matrix_report, sample_unknown_report
from mpsprobe.testing.samples import sample_reports
from mpsprobe.testing.tiny import TinyWorkload

__all__ = [
    "Broken",
    "BrokenClause",
    "CommandResult",
    "FakeClock",
    "FakeDevice",
    "FakeProbe",
    "FakeProgress",
    "FakeScanner",
    "FakeSteps",
    "FakeWorkload",
    "TinyWorkload",
    "broken_clauses",
    "device_contract",
    "exporter_contract",
    "install_plugin",
    "probe_contract",
    "run_cli",
    "runner_contract",
    "sample_cell",
    "sample_comparison_report",
    "sample_coverage_comparison",
    "sample_coverage_report",
    "sample_matrix_report",
    "sample_profile_report",
    "sample_reports",
    "sample_trace",
    "sample_unknown_report",
    "scanner_contract",
    "workload_contract",
]
