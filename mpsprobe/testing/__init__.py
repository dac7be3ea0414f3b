"""Help for the tests of mpsprobe and of its plugins: contracts, fakes, sample reports, a device, the installed command.

``mpsprobe.testing.fixtures`` is a pytest plugin and ``mpsprobe.testing.strategies`` needs Hypothesis; both come with
``pip install 'mpsprobe[testing]'``. What stands here needs neither, and torch only where it says so.
"""

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
from mpsprobe.testing.fakes import (
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
from mpsprobe.testing.packages import install_plugin
from mpsprobe.testing.profiles import sample_cell, sample_profile_report, sample_trace
from mpsprobe.testing.reports import sample_coverage_report, sample_matrix_report, sample_unknown_report
from mpsprobe.testing.samples import sample_reports
from mpsprobe.testing.soundness import assert_plugin_sound
from mpsprobe.testing.tiny import TinyWorkload
from mpsprobe.testing.virtual import OpenDevice, assert_verdicts, open_virtual_device

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
    "assert_plugin_sound",
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
