"""The fakes are what they stand for, and remember how they were used."""

from __future__ import annotations

from mpsprobe.protocols import RunOptions, Scanner, Workload
from mpsprobe_devkit.testing import (
    FakeDevice,
    FakeExporter,
    FakeProbe,
    FakeProgress,
    FakeRunner,
    FakeScanner,
    FakeWorkload,
    device_contract,
    exporter_contract,
    probe_contract,
    runner_contract,
    sample_coverage_report,
    workload_contract,
)

TestFakeDevice = device_contract(FakeDevice, workload=FakeWorkload())
TestFakeExporter = exporter_contract(FakeExporter)
TestFakeProbe = probe_contract(FakeProbe)
TestFakeRunner = runner_contract(FakeRunner, workload=FakeWorkload())
TestFakeWorkload = workload_contract(FakeWorkload())


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


def test_a_runner_and_an_exporter_remember() -> None:
    runner, exporter = FakeRunner(reason="not today"), FakeExporter()
    assert runner.unavailable(FakeDevice()) == "not today"
    runner.open(FakeWorkload("net"), RunOptions(), FakeDevice()).step()
    assert runner.opened == [("net", RunOptions(), "fake")]
    assert exporter.render(sample_coverage_report()) == "'coverage'\n"
    assert exporter.rendered == [sample_coverage_report()]
