"""Steps of a workload without mpsprobe around them, and in turns with it; called by ``run.py``, prints JSON.

``python profile_step.py DEVICE WORKLOAD PHASE BATCH bare WARMUP STEPS`` times the loop that everyone writes by hand,
and ``… turns WARMUP STEPS`` alternates, step by step and in one process, between that loop and a session with the
memory probe; both run the same model and optimizer there, for two copies of a model are not equally quick. Times are
in ns: by the clock, and processor time of the whole process, which hardly changes with what else runs on the machine.
``python profile_step.py DEVICE WORKLOAD PHASE BATCH ratio WARMUP STEPS [THREADS]`` prints the ratio of the two instead,
with a 95 % interval. One thread is the quietest: several wait for each other in loops, which is processor time too.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from statistics import median

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


def timed(step: Callable[[], None], wait: Callable[[], None]) -> tuple[int, int]:
    """How long it took, and how much processor time."""
    wait()
    used, started = time.process_time_ns(), time.perf_counter_ns()
    step()
    wait()
    return time.perf_counter_ns() - started, time.process_time_ns() - used


class Clock:
    """``time.perf_counter_ns`` for a session, which also writes processor time down; a session reads it in pairs."""

    def __init__(self) -> None:
        self.used: list[int] = []

    def __call__(self) -> int:
        """The clock."""
        if len(self.used) % 2:
            now = time.perf_counter_ns()
            self.used.append(time.process_time_ns())
            return now
        self.used.append(time.process_time_ns())
        return time.perf_counter_ns()

    def processor(self, count: int) -> list[int]:
        """Processor time of the last ``count`` steps."""
        return [end - start for start, end in zip(self.used[::2], self.used[1::2], strict=True)][-count:]


class Turns:
    """Satisfies ``mpsprobe.protocols.Progress``: after each timed step of the session it takes some by hand."""

    def __init__(self, step: Callable[[], None], wait: Callable[[], None], wanted: int) -> None:
        self.step, self.wait, self.wanted = step, wait, wanted
        self.took: list[tuple[int, int]] = []
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


def in_turns(where: str, name: str, options: RunOptions, request: ProfileRequest) -> dict[str, list[int]]:
    """Steps of a session and by hand, alternating."""
    registry = get_registry()
    device, clock, wait = registry.device(where), Clock(), WAITS[where]
    steps = device.open(registry.workload(name), options)
    turns = Turns(by_hand(steps._step.run, options, steps._step.optimizer), wait, request.steps)
    measured = Session(device, [registry.made("probe", "memory")], clock).measure(OnlySteps(steps), request, turns)
    assert measured.error is None and measured.found["memory"].peak_process_bytes, measured
    bare, used = ([pair[which] for pair in turns.took] for which in (0, 1))
    processor = clock.processor(request.steps)
    return {"profiled": measured.durations_ns, "bare": bare, "profiled_processor": processor, "bare_processor": used}


def show(found: dict[str, list[int]]) -> None:
    """The ratio of each pair of neighbours, as their median with its interval."""
    from mpsprobe.engine.statistics import bootstrap_interval

    for clock, suffix in (("clock", ""), ("processor time", "_processor")):
        above, below = found[f"profiled{suffix}"], found[f"bare{suffix}"]
        ratios = [one / other for one, other in zip(above, below, strict=True)]
        low, high = bootstrap_interval(ratios)
        middle = f"median {median(ratios):.4f}, 95 % interval {low:.4f} to {high:.4f}"
        step = f"step by hand {median(below) / 1e6:.1f} ms"
        sys.stdout.write(f"profile ÷ by hand, {clock}: {middle} ({len(ratios)} pairs; {step})\n")


def main() -> None:
    where, name, phase, batch, mode, warmup, count, *threads = sys.argv[1:]
    if threads:
        torch.set_num_threads(int(threads[0]))
    options = RunOptions(phase=phase, batch_size=int(batch))
    request = ProfileRequest(steps=int(count), warmup=int(warmup))
    if mode == "bare":
        step = by_hand(build(where, name, options), options)
        for _ in range(request.warmup or 0):
            step()
        json.dump({"bare": [timed(step, WAITS[where])[0] for _ in range(request.steps)]}, sys.stdout)
    elif mode == "ratio":
        show(in_turns(where, name, options, request))
    else:
        json.dump(in_turns(where, name, options, request), sys.stdout)


if __name__ == "__main__":
    main()
