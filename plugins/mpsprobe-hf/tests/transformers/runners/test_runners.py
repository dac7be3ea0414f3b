"""Trainer and accelerate, stepped one update at a time, on the CPU."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from typing import Any

import pytest
import torch
from packaging.version import Version

from mpsprobe.errors import MpsprobeError, UsageError, WorkloadError
from mpsprobe.protocols import Runner, RunOptions, Steps, TorchRun
from mpsprobe_devices.cpu import CpuDevice
from mpsprobe_devkit.testing.fakes import FakeDevice
from mpsprobe_hf.transformers.runners.accelerate import AccelerateRunner
from mpsprobe_hf.transformers.runners.trainer import TrainerRunner
from tests.thorough import all_but

TRAINING = RunOptions(phase="training")
TRAINER_FUSES = Version(torch.__version__) >= Version("2.8")
RUNNERS = [TrainerRunner(), AccelerateRunner()]


class _Net(torch.nn.Module):
    """Counts its calls; with ``fails_at`` it raises in that one."""

    def __init__(self, fails_at: int | None = None) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(4, 2)
        self.calls, self.fails_at, self.modes = 0, fails_at, set[bool]()

    def forward(self, x: torch.Tensor, labels: torch.Tensor | None = None) -> dict[str, torch.Tensor]:
        self.calls += 1
        self.modes.add(self.training)
        if self.calls == self.fails_at:
            raise RuntimeError("no such size")
        out = self.layer(x)
        return {"loss": (out - (0 if labels is None else labels)).pow(2).mean(), "logits": out}


class _Workload:
    name, framework = "net", "torch"

    def __init__(self, **more: Any) -> None:
        self.more, self.net = more, _Net(more.pop("fails_at", None))

    def build(self, options: RunOptions) -> Any:
        inputs = {"x": torch.ones(3, 4), "labels": torch.zeros(3, 2)}
        return TorchRun(**{"model": self.net, "kwargs": inputs, "batch_size": 3, **self.more})

    def describe(self) -> dict[str, Any]:
        return {}


def _opened(runner: Runner, options: RunOptions = TRAINING, **more: Any) -> tuple[Steps, _Net]:
    workload = _Workload(**more)
    return runner.open(workload, options, CpuDevice()), workload.net


@pytest.fixture(params=all_but(lambda one: one is RUNNERS[0], RUNNERS), ids=lambda runner: runner.name)
def runner(request: pytest.FixtureRequest) -> Runner:
    found: Runner = request.param
    return found


def test_a_step_is_one_update_of_the_parameters(runner: Runner) -> None:
    steps, net = _opened(runner)
    before = net.layer.weight.detach().clone()
    for count in (1, 2, 3):
        steps.step()
        assert net.calls == count and net.modes == {True}
    assert not torch.equal(before, net.layer.weight)
    fused = TRAINER_FUSES or runner.name == "accelerate"
    assert steps.info.optimizer == ("AdamW (fused)" if fused else "AdamW") and steps.info.batch_size == 3
    steps.close()
    steps.close()


def test_it_learns_what_the_plain_steps_learn(runner: Runner) -> None:
    plain = CpuDevice().open(workload := _Workload(), TRAINING)
    steps, net = _opened(runner)
    for _ in range(3):
        plain.step()
        steps.step()
    steps.close()
    # Trainer lets its learning rate fall linearly over all updates, which are as good as endless here.
    torch.testing.assert_close(net.layer.weight, workload.net.layer.weight, rtol=1e-6, atol=1e-7)


def test_gradients_are_accumulated(runner: Runner) -> None:
    steps, net = _opened(runner, RunOptions(phase="training", grad_accum=3))
    steps.step()
    weight = net.layer.weight.detach().clone()
    steps.step()
    assert net.calls == 6 and steps.info.grad_accum == 3
    assert not torch.equal(weight, net.layer.weight)
    steps.close()


def test_phases_are_told_apart_and_cover_a_step(runner: Runner) -> None:
    steps, net = _opened(runner)
    found = steps.phases()
    assert {"forward", "backward", "optimizer"} <= set(found) and net.calls == 1
    assert all(found[name] > 0 for name in ("forward", "backward", "optimizer")) and min(found.values()) >= 0
    steps.step()
    assert net.calls == 2
    steps.close()


def test_the_workloads_own_call_loss_and_optimizer_are_used(runner: Runner) -> None:
    made: list[torch.optim.Optimizer] = []

    def optimizer(model: torch.nn.Module) -> torch.optim.Optimizer:
        made.append(torch.optim.SGD(model.parameters(), lr=0.5))
        return made[0]

    seen: list[Any] = []
    steps, net = _opened(
        runner,
        args=(torch.ones(2, 4),),
        kwargs={},
        call=lambda model, args, kwargs: seen.append((len(args), dict(kwargs))) or model(*args)["logits"],
        loss=lambda logits: logits.sum() * 0 + net_of["net"].layer.weight.sum(),
        optimizer=optimizer,
    )
    net_of = {"net": net}
    before = net.layer.weight.detach().clone()
    steps.step()
    assert seen == [(1, {})] and len(made) == 1
    # The gradient is 1 everywhere, of norm sqrt(8), clipped to norm 1.
    torch.testing.assert_close(net.layer.weight, before - 0.5 / 8**0.5, rtol=1e-4, atol=1e-5)
    steps.close()


def test_an_error_of_the_model_comes_out_of_the_step(runner: Runner) -> None:
    steps, _ = _opened(runner, fails_at=4)
    for _ in range(3):
        steps.step()
    with pytest.raises(RuntimeError, match=r"^no such size$"):
        steps.step()
    steps.close()


def test_operators_of_the_loop_are_seen_by_torch_profiler(runner: Runner) -> None:
    steps, _ = _opened(runner)
    steps.step()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as found:
        steps.step()
    steps.close()
    counts = {event.key: event.count for event in found.key_averages()}
    update = "aten::_fused_adamw_" if TRAINER_FUSES or runner.name == "accelerate" else "aten::addcdiv_"
    assert counts["aten::linear"] == 1 and counts[update] >= 1


def test_autocast_is_the_librarys(runner: Runner) -> None:
    dtypes: list[torch.dtype] = []
    steps, net = _opened(runner, RunOptions(phase="training", autocast="bfloat16"))
    net.layer.register_forward_hook(lambda module, args, output: dtypes.append(output.dtype))
    steps.step()
    steps.close()
    assert dtypes == [torch.bfloat16]


def test_wrong_use_is_told(runner: Runner, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="training only"):
        _opened(runner, RunOptions())
    with pytest.raises(UsageError, match="and positional ones"):
        _opened(runner, args=(1,), kwargs={"args": 2})
    monkeypatch.setattr(other := _Workload(), "build", lambda options: 7)
    with pytest.raises(WorkloadError, match="did not build a TorchRun"):
        runner.open(other, TRAINING, CpuDevice())
    steps, _ = _opened(runner)
    steps.step()
    steps.close()
    with pytest.raises((MpsprobeError, StopIteration, AttributeError, TypeError)):
        steps.step()
    assert capsys.readouterr().out == ""
    assert runner.unavailable(CpuDevice()) is None
    assert "knows cpu, cuda, mps only" in (runner.unavailable(FakeDevice()) or "")
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "accelerate" else real(name))
    assert runner.unavailable(CpuDevice()) == 'accelerate not installed: pip install "mpsprobe-hf[trainer]"'


def test_a_runner_is_asked_without_importing_what_it_needs() -> None:
    code = (
        "import sys; sys.modules.update(greenlet=None, accelerate=None)\n"
        "from mpsprobe.plugins.registry import get_registry\n"
        "print(sorted(get_registry().made('runner', name).name for name in get_registry().declared('runner')))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.stdout.strip() == "['accelerate', 'trainer']", ran.stderr
