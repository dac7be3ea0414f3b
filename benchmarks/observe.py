"""What ``observe()`` costs, in one process; called by ``run.py``, prints JSON.

``python observe.py step ROUNDS`` takes training steps of bert-base (its own sizes, batch 1) on the CPU: bare,
counting, and with lines, in turns whose order rotates. ``python observe.py calls NUMBER`` adds two small tensors that
often under ``observe()``: µs for a call, bare and observed, and by how many bytes the peak of memory grew in the
second half.
"""

from __future__ import annotations

import json
import sys
import time
import tracemalloc
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch

from mpsprobe.plugins.registry import get_registry
from mpsprobe.protocols import RunOptions
from mpsprobe_coverage.devices.observed.observe import observe

WARM_UP = 2
WAYS: dict[str, Callable[[], Any]] = {
    "bare": nullcontext,
    "counting": lambda: observe("cpu", lines=False),
    "lines": lambda: observe("cpu"),
}


def step(rounds: int) -> dict[str, list[float]]:
    """Seconds of each step, and of the processor."""
    registry = get_registry()
    options = RunOptions(phase="training", batch_size=1, seq_len=128)
    steps = registry.device("cpu").open(registry.workload("bert-base"), options)
    found: dict[str, list[float]] = {f"{name}{clock}": [] for name in WAYS for clock in ("", " processor")}
    names = list(WAYS)
    for number in range(-WARM_UP, rounds):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            with WAYS[name]():
                started, used = time.perf_counter(), time.process_time()
                steps.step()
                took, processor = time.perf_counter() - started, time.process_time() - used
            if number >= 0:
                found[name].append(took)
                found[f"{name} processor"].append(processor)
    return found


def calls(number: int) -> dict[str, list[float]]:
    """µs for an addition of 16 numbers, bare and observed, and what Python's memory grew by in the second half."""
    x = torch.ones(16)

    def add(times: int) -> float:
        started = time.perf_counter()
        for _ in range(times):
            x + x
        return (time.perf_counter() - started) / times * 1e6

    bare = add(number // 10)
    with observe("cpu"):
        observed = add(number // 2)
        before = peak()
        add(number // 2)
        grown = peak() - before
    return {"bare": [bare], "observed": [observed], "grown": [grown]}


def peak() -> float:
    """The largest resident set of this process so far, in bytes; Python's own memory where that is not known."""
    try:
        import resource
    except ImportError:  # Windows
        return float(tracemalloc.get_traced_memory()[1])
    unit = 1 if sys.platform == "darwin" else 1024
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit)


def main() -> None:
    what, number = sys.argv[1:]
    json.dump({"step": step, "calls": calls}[what](int(number)), sys.stdout)


if __name__ == "__main__":
    main()
