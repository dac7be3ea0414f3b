"""``mpsprobe.profile`` of a program's own model."""

from __future__ import annotations

import copy

import pytest
import torch

import mpsprobe
from mpsprobe.cli.functions import ProfileOptions
from mpsprobe.cli.profile import profile as command
from mpsprobe.errors import UsageError, WorkloadError

QUICK = ProfileOptions(device="cpu", steps=2, warmup=0, probe="none", no_fallbacks=True)
INPUT = torch.ones(2, 4)


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.norm = torch.nn.Linear(4, 2), torch.nn.BatchNorm1d(2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.norm(self.layer(x))
        return y.square().sum()


def test_a_copy_is_run_and_the_model_is_as_before() -> None:
    net = Net()
    net.norm.eval()
    before = copy.deepcopy(net.state_dict())
    for phase in ("inference", "training"):
        report = mpsprobe.profile(net, INPUT, phase=phase, **QUICK)
        [cell] = report
        assert cell.step is not None and cell.step.count == 2
        assert (cell.workload, cell.phase) == ("Net", phase)
    assert (net.training, net.norm.training) == (True, False)
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert net.layer.weight.grad is None


def test_what_falls_back_is_predicted() -> None:
    class Slow(Net):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.linalg.eigvals(x @ x.T).abs().sum()

    options = ProfileOptions(device="cpu", steps=1, warmup=0, probe="none")
    [cell] = mpsprobe.profile(Slow(), INPUT, **options)
    assert [one.operator for one in cell.fallbacks] == ["aten::_linalg_eigvals"]


def test_a_function_that_makes_a_model() -> None:
    [cell] = mpsprobe.profile(lambda: (Net(), INPUT), phase="training", **QUICK)
    assert cell.failure is None


def test_what_cannot_work_is_told() -> None:
    class Unique(Net):
        def __deepcopy__(self, memo: object) -> Net:
            raise TypeError("there is one of me")

    net = Net()
    for model, options, error, says in (
        (lambda x: net(x), {}, UsageError, "would run the program's own model"),
        (Unique(), {}, WorkloadError, "'Unique' cannot be copied: TypeError: there is one of me"),
        (net, {"processes": 2}, UsageError, "--processes needs a workload with a name"),
        (net, {"steps": 0}, UsageError, "--steps takes a whole number from 1, not '0'"),
        (net, {"device": "gpu"}, UsageError, "unknown device 'gpu'"),
        (net, {"batch_size": 2}, UsageError, "Leave --batch-size out"),
    ):
        with pytest.raises(error, match=says):
            mpsprobe.profile(model, INPUT, **{**QUICK, **options})  # type: ignore[typeddict-item]
    with pytest.raises(UsageError, match="what should be run"):
        mpsprobe.profile()


def test_its_options_are_the_flags_of_the_command() -> None:
    flags = {option.opts[-1].removeprefix("--").replace("-", "_") for option in command.params}
    assert set(ProfileOptions.__annotations__) == flags - {"names", "workload", "export", "format", "output"}
