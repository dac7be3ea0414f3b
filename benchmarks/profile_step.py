"""Steps of a workload without mpsprobe around them, and in turns with it; called by ``run.py``, prints JSON.

``python profile_step.py DEVICE WORKLOAD PHASE BATCH bare WARMUP STEPS`` times the loop that everyone writes by hand,
and ``… turns WARMUP STEPS`` alternates, step by step and in one process, between that loop and a session with the
memory probe; both run the same model and optimizer there, for two copies of a model are not equally quick. Times are
in ns.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

import torch
from torch.utils._pytree import tree_map_only

from mpsprobe.engine.request import ProfileRequest
from mpsprobe.engine.session import Session
from mpsprobe.plugins.registry import get_registry
from mpsprobe.protocols import RunOptions, Steps, TorchRun
from mpsprobe.stepping import ADAMW, parameter_groups

WAITS = {"cuda": torch.cuda.synchronize, "mps": torch.mps.synchronize, "cpu": lambda: None}


def build(device: str, name: str, options: RunOptions) -> TorchRun:
    """The workload on ``device``."""
    run = get_registry().workload(name).build(options)
    assert isinstance(run, TorchRun)
    run.model = run.model.to(device)
    run.args, run.kwargs = tree_map_only(torch.Tensor, lambda one: one.to(device), (run.args, dict(run.kwargs)))
    return run


def by_hand(run: TorchRun, options: RunOptions, optimizer: torch.optim.Optimizer | None = None) -> Callable[[], None]:
    """One step, as a script without any library has it."""
    model, args, kwargs = run.model, run.args, dict(run.kwargs)

    def infer() -> None:
        with torch.no_grad():
            model(*args, **kwargs)

    if options.phase == "inference":
        return infer
    parameters = list(model.parameters())
    update = optimizer or torch.optim.AdamW(parameter_groups(model), **ADAMW, fused=True)

    def train() -> None:
        output = model(*args, **kwargs)
        (run.loss(output) if run.loss else output.loss).backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        update.step()
        update.zero_grad()

    return train


def timed(step: Callable[[], None], wait: Callable[[], None]) -> int:
    """How long it took."""
    wait()
    started = time.perf_counter_ns()
    step()
    wait()
    return time.perf_counter_ns() - started


class Turns:
    """Satisfies ``mpsprobe.protocols.Progress``: after each timed step of the session it takes some by hand."""

    def __init__(self, step: Callable[[], None], wait: Callable[[], None], wanted: int) -> None:
        self.step, self.wait, self.wanted = step, wait, wanted
        self.took: list[int] = []
        self.counting = False

    def start(self, total: int | None, what: str) -> None:
        """Count from the timed steps on, and no longer."""
        self.counting = what == "steps"

    def advance(self, what: str | None = None) -> None:
        """Two steps by hand; the second counts: like the session's, it follows upon a step and not upon a probe."""
        if self.counting and len(self.took) < self.wanted:
            timed(self.step, self.wait)
            self.took.append(timed(self.step, self.wait))

    def stop(self) -> None:
        """Nothing."""


class OnlySteps:
    """The steps of a device without their phases, which are not compared."""

    def __init__(self, steps: Steps) -> None:
        self.info, self.model, self.step, self.close = steps.info, steps.model, steps.step, steps.close

    def phases(self) -> dict[str, int]:
        """None."""
        return {}


def main() -> None:
    where, name, phase, batch, mode, warmup, count = sys.argv[1:]
    options = RunOptions(phase=phase, batch_size=int(batch))
    request = ProfileRequest(steps=int(count), warmup=int(warmup))
    wait = WAITS[where]
    if mode == "bare":
        step = by_hand(build(where, name, options), options)
        for _ in range(request.warmup or 0):
            step()
        json.dump({"bare": [timed(step, wait) for _ in range(request.steps)]}, sys.stdout)
        return
    registry = get_registry()
    device = registry.device(where)
    steps = device.open(registry.workload(name), options)
    turns = Turns(by_hand(steps._step.run, options, steps._step.optimizer), wait, request.steps)
    measured = Session(device, [registry.probe("memory")]).measure(OnlySteps(steps), request, turns)
    assert measured.error is None and measured.found["memory"].peak_process_bytes, measured
    json.dump({"profiled": measured.durations_ns, "bare": turns.took}, sys.stdout)


if __name__ == "__main__":
    main()
