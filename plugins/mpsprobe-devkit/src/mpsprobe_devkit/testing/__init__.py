"""Help for the tests of mpsprobe and of its plugins: contracts, fakes, sample reports, a device, the installed command.

``mpsprobe_devkit.testing.fixtures`` is a pytest plugin, ``mpsprobe_devkit.testing.strategies`` is for Hypothesis. What
stands here needs neither, and torch only where it says so.
"""

from __future__ import annotations

from mpsprobe_devkit.testing.checkpoints import sample_checkpoint_report
from mpsprobe_devkit.testing.commands import CommandResult, run_cli
from mpsprobe_devkit.testing.comparisons import sample_comparison_report, sample_coverage_comparison
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
    FakeExporter,
    FakeProbe,
    FakeProgress,
    FakeRunner,
    FakeScanner,
    FakeSteps,
    FakeWorkload,
)
from mpsprobe_devkit.testing.fits import sample_fit_report
from mpsprobe_devkit.testing.packages import install_plugin
from mpsprobe_devkit.testing.profiles import sample_cell, sample_profile_report, sample_trace
from mpsprobe_devkit.testing.releases import sample_ranking_report, sample_upgrade_report
from mpsprobe_devkit.testing.reports import (
    sample_coverage_report,
    sample_matrix_report,
    sample_several_report,
    sample_unknown_report,
)
from mpsprobe_devkit.testing.samples import sample_reports
from mpsprobe_devkit.testing.tiny import TinyWorkload
from mpsprobe_devkit.testing.virtual import OpenDevice, assert_verdicts, open_virtual_device

__all__ = [
    "Broken",
    "BrokenClause",
    "CommandResult",
    "FakeClock",
    "FakeDevice",
    "FakeExporter",
    "FakeProbe",
    "FakeProgress",
    "FakeRunner",
    "FakeScanner",
    "FakeSteps",
    "FakeWorkload",
    "OpenDevice",
    "TinyWorkload",
    "assert_verdicts",
    "broken_clauses",
    "device_contract",
    "exporter_contract",
    "install_plugin",
    "open_virtual_device",
    "probe_contract",
    "run_cli",
    "runner_contract",
    "sample_cell",
    "sample_checkpoint_report",
    "sample_comparison_report",
    "sample_coverage_comparison",
    "sample_coverage_report",
    "sample_fit_report",
    "sample_matrix_report",
    "sample_profile_report",
    "sample_ranking_report",
    "sample_reports",
    "sample_several_report",
    "sample_trace",
    "sample_unknown_report",
    "sample_upgrade_report",
    "scanner_contract",
    "workload_contract",
]
