"""What a program costs on the virtual device: ``python benchmarks/programs.py``.

In one process steps are taken on the CPU without a device, on the device, and on the CPU again; the median of the first
and the last is what the device is compared with. bert-base with its own sizes, 4 x 128, AdamW; then an addition of 16
numbers, which is hardly more than the call; then a million of them, for the memory. Each case is a process of its own:
the native device (counting; with modules, lines and bytes) and the one in Python, which serves where no compiler is.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

REACH = {"counting": (1.10, 5.0), "lines": (1.10, 25.0), "python": (1.5, 80.0)}
CALLS = 20_000
MILLION = 1_000_000


def main() -> int:
    """Measure each case, print the figures, and say how it went (1: one was missed)."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9, help="how often a step alternates with that on the CPU")
    parser.add_argument("--only", choices=REACH, action="append", help="one case")
    parser.add_argument("--case", choices=REACH, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.case:
        sys.stdout.write(json.dumps(measure(arguments.case, arguments.rounds)))
        return 0
    missed = False
    for case in arguments.only or REACH:
        command = [sys.executable, __file__, "--case", case, "--rounds", str(arguments.rounds)]
        found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        for (what, unit), reach in zip((("step", "x the CPU's"), ("call", "µs more")), REACH[case], strict=True):
            low, median, high = found[what]
            missed |= median > reach
            sys.stdout.write(
                f"{case:9} {what}: {median:.3f} {unit} ({low:.3f} to {high:.3f})  reach {reach:g}: "
                f"{'yes' if median <= reach else 'NO'}\n"
            )
        sys.stdout.write(f"{case:9} memory after {MILLION:,} calls more: {found['growth_kb']:+,} kB\n")
        sys.stdout.flush()
    return missed


def measure(case: str, rounds: int) -> dict[str, Any]:
    """Smallest, median and largest: the ratio of a step, and the microseconds that a call takes more."""
    import torch

    device = _device(case)  # first: torch looks for MPS once
    calls = CALLS if case != "python" else CALLS // 10
    numbers = torch.randn(16)
    on_the_cpu = _step("cpu")
    bare = [_round(on_the_cpu, numbers, calls) for _ in range(rounds)]
    with device:
        on_the_device, few = _step("mps"), numbers.to("mps")
        found = [_round(on_the_device, few, calls) for _ in range(rounds)]
        before = _resident_kb()
        _add(few, MILLION if case != "python" else MILLION // 10)
        growth = _resident_kb() - before
    bare += [_round(on_the_cpu, numbers, calls) for _ in range(rounds)]
    step, call = (statistics.median(one[what] for one in bare[2:]) for what in (0, 1))
    return {
        "step": _spread([one[0] / step for one in found[1:]]),
        "call": _spread([(one[1] - call) / calls * 1e6 for one in found[1:]]),
        "growth_kb": growth,
    }


def _round(step: Callable[[], None], numbers: Any, calls: int) -> tuple[float, float]:
    """Seconds of a step, and of additions."""
    return _seconds(step), _seconds(lambda: _add(numbers, calls))


def _device(case: str) -> AbstractContextManager[Any]:
    from mpsprobe_coverage.knowledge.judging.chain import Chain
    from mpsprobe_coverage.knowledge.kernels.backends import family_named

    chain = Chain(family_named("mps").target("installed"))
    if case == "python":
        from mpsprobe_coverage.programs.program_device import DeviceInPython

        return DeviceInPython(chain, values=True)
    from mpsprobe_coverage.devices.native.device import NativeDevice

    return NativeDevice(chain, lines=case == "lines")


def _step(device: str) -> Callable[[], None]:
    import torch
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(0)
    model = BertForSequenceClassification(BertConfig()).to(device).train()
    optimizer = torch.optim.AdamW(model.parameters())
    ids, labels = torch.randint(0, 30_000, (4, 128)).to(device), torch.randint(0, 2, (4,)).to(device)

    def step() -> None:
        model(input_ids=ids, labels=labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def _add(x: Any, calls: int) -> None:
    for _ in range(calls):
        x + x


def _seconds(run: Callable[[], None]) -> float:
    gc.collect()
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def _spread(values: list[float]) -> tuple[float, float, float]:
    return min(values), statistics.median(values), max(values)


def _resident_kb() -> int:
    import psutil

    gc.collect()
    return int(psutil.Process(os.getpid()).memory_info().rss // 1024)


if __name__ == "__main__":
    sys.exit(main())
