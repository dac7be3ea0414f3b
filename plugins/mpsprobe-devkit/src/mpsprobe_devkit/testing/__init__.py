"""Help for the tests of mpsprobe and of its plugins: contracts, fakes, sample reports, a device, the installed command.

``mpsprobe_devkit.testing.fixtures`` is a pytest plugin, ``mpsprobe_devkit.testing.strategies`` is for Hypothesis. What
stands here needs neither, and torch only where it says so.
"""

from __future__ import annotations

from mpsprobe_devkit.testing.commands import CommandResult, install_plugin, run_cli
from mpsprobe_devkit.testing.contracts import (
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
from mpsprobe_devkit.testing.fakes import (
    FakeClock,
    FakeDevice,
    FakeProbe,
    FakeProgress,
    FakeScanner,
    FakeSteps,
    FakeWorkload,
    TinyWorkload,
)
from mpsprobe_devkit.testing.samples import (
    sample_cell,
    sample_comparison_report,
    sample_coverage_comparison,
    sample_coverage_report,
    sample_matrix_report,
    sample_profile_report,
    sample_reports,
    sample_several_report,
    sample_trace,
)
from mpsprobe_devkit.testing.virtual import OpenDevice, assert_verdicts, open_virtual_device

__all__ = [
    "Broken", "BrokenClause", "CommandResult", "FakeClock", "FakeDevice", "FakeProbe", "FakeProgress", "FakeScanner",
    "FakeSteps", "FakeWorkload", "OpenDevice", "TinyWorkload", "assert_verdicts", "broken_clauses", "device_contract",
    "exporter_contract", "install_plugin", "open_virtual_device", "probe_contract", "run_cli", "runner_contract",
    "sample_cell", "sample_comparison_report", "sample_coverage_comparison",
    "sample_coverage_report", "sample_matrix_report", "sample_profile_report",
    "sample_reports", "sample_several_report", "sample_trace",
    "scanner_contract", "workload_contract",
]  # fmt: skip
