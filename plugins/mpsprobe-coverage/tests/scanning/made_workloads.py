"""Workloads of a few lines, made in a test."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from mpsprobe.protocols import RunOptions, TorchRun
from mpsprobe.schemas import CoverageReport, MatrixReport, OperatorFinding
from mpsprobe_coverage.scanning.scan import CoverageScanner
from mpsprobe_devkit.testing import FakeProgress


class Made:
    """A workload whose ``build`` is a function of the test."""

    name = "made"
    framework = "torch"

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make

    def build(self, options: RunOptions) -> Any:
        """What the function returns."""
        del options
        return self._make()

    def describe(self) -> Mapping[str, Any]:
        """Nothing."""
        return {}


class Calls(torch.nn.Module):
    """A model that is one function of its input, with a linear layer to train before it."""

    def __init__(self, function: Callable[[torch.Tensor], Any] = lambda y: y) -> None:
        super().__init__()
        self.first, self.function = torch.nn.Linear(4, 3), function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(self.first(x))


def calling(function: Callable[[torch.Tensor], Any] = lambda y: y, **options: Any) -> Made:
    """A workload of ``Calls`` on two samples."""
    return Made(lambda: TorchRun(Calls(function), (torch.ones(2, 4),), **options))


def scan(workload: Made, release: str, **options: Any) -> CoverageReport:
    """The report on one release."""
    report = CoverageScanner().scan(workload, RunOptions(**options), [release], FakeProgress())
    assert isinstance(report, CoverageReport)
    return report


def scan_many(workload: Made, releases: list[str], **options: Any) -> MatrixReport:
    """The report on several releases."""
    report = CoverageScanner().scan(workload, RunOptions(**options), releases, FakeProgress())
    assert isinstance(report, MatrixReport)
    return report


def finding(report: CoverageReport, operator: str) -> OperatorFinding:
    """The one finding about ``aten::OPERATOR``."""
    (found,) = [one for one in report.operators if one.operator == f"aten::{operator}"]
    return found


def calls(report: CoverageReport, phase: str) -> dict[str, int]:
    """Calls in one phase by operator, without ``aten::``."""
    return {one.operator.removeprefix("aten::"): one.phases[phase] for one in report.operators if phase in one.phases}
