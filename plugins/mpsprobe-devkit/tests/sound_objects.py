"""A runner and a scanner that break no clause, for the tests of their contracts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mpsprobe.errors import UsageError
from mpsprobe.protocols import Device, Progress, RunOptions, Workload
from mpsprobe.schemas import OperatorFinding, RunFailure
from mpsprobe_devkit.testing import sample_coverage_report


class Runs:
    """A sound runner: it leaves all to the device."""

    name = "fake"

    def unavailable(self, device: Device) -> str | None:
        return None if device.name == "fake" else "it runs on the fake device alone"

    def open(self, workload: Workload, options: RunOptions, device: Any, *, compiled: bool = False) -> Any:
        return device.open(workload, options, compiled=compiled)


class Scans:
    """A sound scanner: it builds the workload, steps it, and reports one operator."""

    def scan(self, workload: Workload, options: RunOptions, torch_releases: Sequence[str], progress: Progress) -> Any:
        self.check(torch_releases)
        progress.start(len(torch_releases), workload.name)
        try:
            run = self.built(workload, options)
            progress.advance()
        finally:
            progress.stop()
        return self.report(workload, options, self.failure(run))

    def check(self, releases: Sequence[str]) -> None:
        if not releases:
            raise UsageError("no release to judge")
        for release in releases:
            if release != "latest":
                raise UsageError(f"there is no release '{release}'")

    def built(self, workload: Workload, options: RunOptions) -> Any:
        return workload.build(options)

    def failure(self, run: Any) -> RunFailure | None:
        if hasattr(run, "model"):
            try:
                run.model(*run.args)
            except ValueError as error:
                return RunFailure(phase="forward", error="ValueError", message=str(error))
        return None

    def report(self, workload: Workload, options: RunOptions, failure: RunFailure | None) -> Any:
        sample = sample_coverage_report()
        info = sample.workload.model_copy(update={"name": workload.name, "phase": options.phase})
        one = {"operator": "aten::linear", "verdict": "native", "calls": 2, "phases": {"forward": 2}, "dtypes": []}
        counts = {"calls": 2, "operators": 1}
        return sample.model_copy(
            update={
                "workload": info,
                "operators": [OperatorFinding.model_validate(one)],
                "summary": sample.summary.model_copy(update=counts),
                "failure": failure,
            }
        )
