"""Forward, backward, optimizer: of each thread by itself."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch
from torch.optim.optimizer import _global_optimizer_pre_hooks

from mpsprobe_programs.phases import ProgramRecorder, optimizers_followed, phase_now


class Asking(torch.autograd.Function):
    """Notes the phase in which its backward runs."""

    seen: list[str] = []

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
        Asking.seen.append(phase_now())
        return gradients[0]


class Optimizer(torch.optim.SGD):
    """Notes the phase of its step, and that of another thread at the same time."""

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        self.seen = [phase_now()]
        thread = threading.Thread(target=lambda: self.seen.append(phase_now()))
        thread.start()
        thread.join()


def test_phases_are_those_of_the_thread() -> None:
    weight = torch.ones(2, requires_grad=True)
    Asking.seen.clear()
    with optimizers_followed():
        assert phase_now() == "forward"
        Asking.apply(weight).sum().backward()  # type: ignore[no-untyped-call]
        optimizer = Optimizer([weight], lr=0.1)
        optimizer.step()
        assert phase_now() == "forward"
    assert Asking.seen == ["backward"]
    assert optimizer.seen == ["optimizer", "forward"]
    assert not _global_optimizer_pre_hooks


def test_a_closure_is_no_part_of_the_step() -> None:
    weight = torch.ones(2, requires_grad=True)
    seen: list[str | bool] = []

    def closure() -> Any:
        seen.append(phase_now())
        loss = weight.sum()
        loss.backward()
        return loss.detach()

    def broken() -> Any:
        raise KeyError

    with optimizers_followed(seen.append), optimizers_followed():
        for optimizer in (torch.optim.SGD([weight], lr=0.1), torch.optim.LBFGS([weight], max_iter=2)):
            seen.clear()
            optimizer.step(closure=closure)
            calls = seen.count("forward")
            assert calls and seen == [True, *[False, "forward", True] * calls, False]
        with pytest.raises(KeyError):
            optimizer.step(broken)
        assert phase_now() == "forward"


def test_a_recorder_is_muted_for_one_thread() -> None:
    recorder = ProgramRecorder()
    recorder.phase = "forward"
    assert recorder.phase == "forward"
    recorder.phase = None
    seen: list[str | None] = []
    thread = threading.Thread(target=lambda: seen.append(recorder.phase))
    thread.start()
    thread.join()
    assert (recorder.phase, seen) == (None, ["forward"])
    recorder.phase = "forward"
