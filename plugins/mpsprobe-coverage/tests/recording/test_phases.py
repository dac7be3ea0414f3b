"""Forward, backward, optimizer: of each thread by itself."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch
from torch.optim.optimizer import _global_optimizer_pre_hooks

from mpsprobe_coverage.recording.phases import ProgramRecorder, optimizers_followed, phase_now


class Optimizer(torch.optim.SGD):
    """Notes the phase of its step, and that of another thread at the same time."""

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        self.seen = [phase_now()]
        thread = threading.Thread(target=lambda: self.seen.append(phase_now()))
        thread.start()
        thread.join()


def test_phases_are_those_of_the_thread() -> None:
    weight, seen = torch.ones(2, requires_grad=True), []
    with optimizers_followed():
        assert phase_now() == "forward"
        result = weight.clone()
        result.register_hook(lambda _: seen.append(phase_now()))
        result.sum().backward()
        optimizer = Optimizer([weight], lr=0.1)
        optimizer.step()
        assert phase_now() == "forward"
    assert seen == ["backward"]
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
