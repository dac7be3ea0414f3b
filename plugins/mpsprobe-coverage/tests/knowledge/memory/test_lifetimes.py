"""The virtual device records the same lifetimes as PyTorch's own devices show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import nn
from torch._subclasses import FakeTensorMode
from torch.utils.checkpoint import checkpoint

from benchmarks.real_memory import Tracking
from mpsprobe.protocols import RunOptions, TorchRun
from mpsprobe.stepping import TorchStep
from mpsprobe_coverage.devices.virtual import VirtualDevice
from mpsprobe_coverage.knowledge.kernels.mps import load_table
from mpsprobe_coverage.knowledge.memory.lifetimes import Block, Lifetimes, Phase
from mpsprobe_coverage.knowledge.memory.timeline import peak_with_output_kept, timeline
from mpsprobe_coverage.reporting.memory import label_inputs, label_model, labelling
from mpsprobe_coverage.scanning.step import ReleaseStep

TRAINING = RunOptions(phase="training")


class Residual(nn.Module):
    """Views, in-place operators, a buffer, tied weights, a gradient that is accumulated from two uses."""

    def __init__(self, again: bool = False, frozen: bool = False) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(64, 192), nn.Linear(64, 64)
        self.first.requires_grad_(not frozen)
        self.last = nn.Linear(64, 64)
        self.last.weight = self.second.weight
        self.norm = nn.BatchNorm1d(64)
        self.again = again

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = checkpoint(self.inner, x, use_reentrant=False) if self.again else self.inner(x)
        return self.last(self.norm(inner)).relu_().pow(2).mean()

    def inner(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = self.first(x).chunk(3, dim=-1)
        scores = (query @ key.transpose(0, 1)).mul_(0.125).softmax(-1)
        return self.second(scores @ value) + x


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.out = nn.Embedding(100, 32), nn.Linear(32, 100)
        self.cell = nn.GRUCell(32, 32)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        state = torch.zeros(4, 32, device=ids.device)
        for step in self.embedding(ids).unbind(1):
            state = self.cell(step, state)
        return nn.functional.cross_entropy(self.out(state), ids[:, 0])


PROGRAMS: dict[str, tuple[Callable[[], nn.Module], Callable[[], torch.Tensor], RunOptions]] = {
    "training": (Residual, lambda: torch.rand(32, 64), TRAINING),
    "inference": (Residual, lambda: torch.rand(32, 64), RunOptions()),
    "checkpointing": (lambda: Residual(again=True), lambda: torch.rand(32, 64), TRAINING),
    "accumulation": (Residual, lambda: torch.rand(32, 64), RunOptions(phase="training", grad_accum=3)),
    "frozen": (lambda: Residual(frozen=True), lambda: torch.rand(32, 64), TRAINING),
    "recurrent": (Recurrent, lambda: torch.randint(0, 100, (4, 6)), TRAINING),
}
_OTHERWISE = {"recurrent": 0.01}  # the derivative of a GRU's cell is made of other operators on MPS


def _run(name: str) -> tuple[TorchRun, RunOptions]:
    make, data, options = PROGRAMS[name]
    run = TorchRun(make().train(), (data(),), loss=lambda output: output)
    # Its update is the same on every device, foreach or not.
    run.optimizer = lambda model: torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, foreach=False)
    return run, options


def _heights(events: Any) -> dict[str, list[int]]:
    """Bytes that are alive at the beginning and at the end of each phase, and the most in it."""
    live, most, found = 0, 0, dict[str, list[int]]()
    open_, begun = None, set[Block]()
    for event in events:
        if isinstance(event, Block):
            live += -event.nbytes if event in begun else event.nbytes
            begun.add(event)
            most = max(most, live)
        elif isinstance(event, Phase):
            if open_ is not None:
                found.setdefault(open_[0], []).append(open_[1])
                found[open_[0]] += [most, live]
            open_ = None if event.name is None else (event.name, live)
            most = live
    return found


def _on_the_cpu(name: str, steps: int) -> list[dict[str, list[int]]]:
    run, options = _run(name)
    found = []
    with Tracking(lifetimes := Lifetimes(), "cpu") as tracking:
        tracking.add((*run.model.parameters(), *run.model.buffers(), *run.args))

        @contextmanager
        def phase(name: str) -> Iterator[None]:
            lifetimes.phase(name)
            yield
            lifetimes.phase(None)

        step = TorchStep(run, options, "cpu")
        for _ in range(steps):
            step.take(phase)
            found.append(_heights(lifetimes.end()))
    return found


def _on_the_device(run: TorchRun, options: RunOptions) -> Any:
    lifetimes = Lifetimes()
    with VirtualDevice(load_table("2.13.0"), lifetimes=lifetimes) as device:
        device.move(run.model)
        label_model(run.model)
        run.args = device.move(run.args)
        label_inputs(run.args)
        step = ReleaseStep(run, options, device.table)
        step.take(lambda phase: labelling(device, step, phase))
        return lifetimes.end()


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_alive_is_what_is_alive_on_the_cpu(name: str) -> None:
    """The bytes before, in and after each phase; in training, the peak is that of a second step."""
    events, (first, second) = _on_the_device(*_run(name)), _on_the_cpu(name, 2)
    options, otherwise = PROGRAMS[name][2], _OTHERWISE.get(name, 0)
    on_device = _heights(events)
    assert on_device.keys() == first.keys()
    for phase, heights in on_device.items():
        assert heights == pytest.approx(first[phase], rel=otherwise), phase
    if options.phase == "training":
        predicted = timeline(events)
        for phase, height in predicted.by_phase.items():
            assert height == pytest.approx(max(second[phase][1::3]), rel=otherwise), phase
        kept = second["forward"][3 * options.grad_accum] - second["forward"][0]
        state = [storage.nbytes for storage in predicted.alive if storage.category == "optimizer state"]
        assert sum(state) == kept
        alive = sum(storage.nbytes for storage in predicted.alive)
        assert alive == predicted.peak == max(predicted.by_phase.values())


@pytest.mark.parametrize("accumulated", [1, 3])
def test_a_loop_that_keeps_the_output_needs_more(accumulated: int) -> None:
    model, x, target = nn.Linear(64, 3000), torch.rand(32, 64), torch.arange(32)

    def loss(output: Any) -> torch.Tensor:
        return nn.functional.cross_entropy(output["logits"].float(), target.to(output["logits"].device))

    class Returning(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"logits": self.model(x)}

    run = TorchRun(Returning(), (x,), loss=loss)
    run.optimizer = lambda model: torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)
    optimizer = run.optimizer(run.model)
    with Tracking(lifetimes := Lifetimes(), "cpu") as tracking:
        tracking.add((*run.model.parameters(), x))
        for _ in range(2):
            lifetimes.phase("step")
            for _ in range(accumulated):
                output = run.model(x)
                (loss(output) / accumulated).backward()
            optimizer.step()
            optimizer.zero_grad()
            lifetimes.phase(None)
        events = lifetimes.end()
    run.model.zero_grad()
    predicted = timeline(_on_the_device(run, RunOptions(phase="training", grad_accum=accumulated)))
    kept = peak_with_output_kept(predicted.changes)
    assert kept > predicted.peak and output is not None
    assert kept == pytest.approx(_heights(events)["step"][4], abs=2000)  # but for what the loss makes of `target`


def test_views_and_writes_share_memory_and_resizing_does_not() -> None:
    lifetimes = Lifetimes()

    def alive() -> int:
        blocks = Counter(event for event in lifetimes.end() if isinstance(event, Block))
        return sum(block.nbytes for block, seen in blocks.items() if seen == 1)

    with VirtualDevice(load_table("2.13.0"), lifetimes=lifetimes):
        before = alive()  # a device makes nothing of its own
        x = torch.empty(1000, device="mps")
        views = [x.view(10, 100), x[3:].t(), x.detach(), x.view(torch.int32), *x.split(100), x.expand(2, 1000)]
        x += 1
        assert alive() - before == 4000
        del x
        assert alive() - before == 4000
        views.clear()
        assert alive() == before
        y = torch.empty(10, device="mps").resize_(500)
        assert alive() - before == 2000
        y.set_(torch.empty(100, device="mps"))
        assert alive() - before == 400
        z = torch.empty(0, device="mps")
        torch.add(y, y, out=z)
        assert alive() - before == 800
        kept = torch.ones(50, device="mps", requires_grad=True)
        out = kept.exp().sum()
        assert alive() - before == 800 + 200 + 200 + 4
        del out
        assert alive() - before == 1000
        z.data = torch.empty(7, device="mps")
        assert alive() - before == 628
        assert torch.empty(5).numel() and alive() - before == 628  # on the CPU


def test_a_value_of_a_fake_tensor_is_taken_for_zero() -> None:
    with FakeTensorMode(), Tracking(Lifetimes(), "cpu"):  # type: ignore[no-untyped-call]
        probability = torch.rand([])
        assert not probability < 0.5 and probability.item() == 0
