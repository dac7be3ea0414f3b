"""The fakes are what they stand for, and remember how they were used."""

from __future__ import annotations

from mpsprobe.protocols import RunOptions, Scanner, Workload
from mpsprobe.testing import FakeProgress, FakeScanner, FakeWorkload, sample_coverage_report


def test_a_scan_with_fakes() -> None:
    workload, scanner, progress = FakeWorkload("net"), FakeScanner(), FakeProgress()
    assert isinstance(workload, Workload)
    assert isinstance(scanner, Scanner)
    options = RunOptions(phase="training")
    assert scanner.scan(workload, options, ["2.13.0"], progress) == sample_coverage_report()
    assert workload.built == [options]
    assert scanner.scanned == [("net", options, ("2.13.0",))]
    assert progress.steps == [("start", 1, "net"), ("advance", None), ("stop",)]
    assert workload.describe() == {"name": "net", "architecture": "Fake"}
