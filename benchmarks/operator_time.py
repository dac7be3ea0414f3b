"""What the probe ``operators`` costs and whether it is right, compared with bare torch.profiler.

``python operator_time.py cost WORKLOAD PHASE [--device D] [--rounds N]`` times steps under the probe and under
``torch.profiler.profile(activities=[…])`` in turns, in one process and with one model. The first of a round
alternates. It prints the ratio of each round and the median of all with its 95 % interval, by the clock and of
processor time. Exit code 1 where the interval by the clock is not within 0.95 to 1.05.
``python operator_time.py agree WORKLOAD PHASE [--device D]`` records once and compares the device time of each operator
with ``key_averages()`` and with the kernels that torch links to it; exit code 1 where one is 2 % off.
"""

from __future__ import annotations

import argparse
import gc
import os
import statistics
import sys
import time
from collections.abc import Sequence
from typing import Any

REACH_COST, REACH_AGREE = (0.95, 1.05), 0.02
WARM_UP = 3
KINDS = ("bare", "probe")
Took = dict[str, list[int]]


def open_steps(arguments: argparse.Namespace) -> tuple[Any, Any]:
    """The device, and warm steps on it."""
    from mpsprobe.plugins.registry import get_registry
    from mpsprobe.protocols import RunOptions

    os.environ.setdefault("KINETO_LOG_LEVEL", "9")  # as the recorder has it, also where bare torch.profiler is first
    if arguments.threads is not None:
        import torch

        torch.set_num_threads(arguments.threads)
    registry = get_registry()
    device = registry.device(arguments.device)
    options = RunOptions(phase=arguments.phase, batch_size=arguments.batch_size, seq_len=arguments.seq_len)
    steps = device.open(registry.workload(arguments.workload), options)
    for _ in range(WARM_UP):
        steps.step()
    return device, steps


def cost(arguments: argparse.Namespace) -> int:
    """Rounds of steps under one profiler and under the other; the ratio of a round is that of its medians."""
    from mpsprobe.engine.statistics import bootstrap_interval

    device, steps = open_steps(arguments)
    for kind in KINDS:  # the profiler's own first start
        _round(kind, device, steps, 1)
    found: dict[str, list[float]] = {"clock": [], "processor time": []}
    end = time.monotonic() + arguments.seconds
    for number in range(arguments.rounds):
        if time.monotonic() > end:
            break
        order = KINDS if number % 2 == 0 else KINDS[::-1]
        took = {kind: _round(kind, device, steps, arguments.steps) for kind in order}
        for clock, ratios in found.items():
            ratios.append(statistics.median(took["probe"][clock]) / statistics.median(took["bare"][clock]))
        shown = ", ".join(f"{clock} {ratios[-1]:.3f}" for clock, ratios in found.items())
        bare = statistics.median(took["bare"]["clock"]) / 1e6
        sys.stdout.write(f"round {number + 1}: bare {bare:.2f} ms, {shown}\n")
        sys.stdout.flush()
    reached = False
    for clock, ratios in reversed(found.items()):
        low, high = bootstrap_interval(ratios)
        middle = f"median {statistics.median(ratios):.3f}, 95 % interval {low:.3f} to {high:.3f}"
        rest = f"rounds {min(ratios):.3f} to {max(ratios):.3f}"
        sys.stdout.write(f"{arguments.workload} {arguments.phase}: probe ÷ bare, {clock}: {middle} ({rest})\n")
        reached = REACH_COST[0] <= low and high <= REACH_COST[1]
    load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    sys.stdout.write(f"{'reached' if reached else 'not reached'}: {REACH_COST[0]} to {REACH_COST[1]}{load}\n")
    return int(not reached)


def _round(kind: str, device: Any, steps: Any, count: int) -> Took:
    """The ns of each of ``count`` steps, by the clock and of processor time.

    The probe's are those of which it takes the times of operators. What was recorded is not read: that takes seconds,
    and is no step.
    """
    from torch.profiler import ProfilerActivity, profile

    from mpsprobe_devices.operators.kineto import KinetoRecorder

    took: Took = {"clock": [], "processor time": []}
    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if device.name == "cuda" else [])
    profiler: Any = profile(activities=activities)
    if kind == "probe":
        profiler = KinetoRecorder(device.name, steps.model, described=False)
    gc.collect()  # what the round before left: thousands of events
    profiler.start()
    steps.step()
    for _ in range(count):
        _timed(device, steps, took)
        if kind == "probe":
            profiler.sample()
    profiler.stop()
    return took


def _timed(device: Any, steps: Any, took: Took) -> None:
    device.synchronize()
    started, used = time.perf_counter_ns(), time.process_time_ns()
    steps.step()
    device.synchronize()
    took["processor time"].append(time.process_time_ns() - used)
    took["clock"].append(time.perf_counter_ns() - started)


def agree(arguments: argparse.Namespace) -> int:
    """Device time of each operator, ours and torch's, of the same run."""
    from mpsprobe_devices.operators.kineto import KinetoRecorder
    from mpsprobe_devices.traces.totals import operator_times

    device, steps = open_steps(arguments)
    recorder = KinetoRecorder(device.name, steps.model)
    recorder.start()
    for _ in range(arguments.steps):
        steps.step()
        device.synchronize()
        recorder.sample()
    recorder.stop()
    recording = recorder.read()
    ours = {
        entry.operator: entry for entry in operator_times(recording.totals(), recording.source, recording.timed_device)
    }
    torchs = _key_averages(recorder._profile)
    linked, kernels = _linked(recorder._profile.profiler.kineto_results.events())
    if not kernels:
        raise SystemExit(f"torch.profiler saw no kernel on {device.name}: there is nothing to hold against another")
    columns = ("own", "torch's", "kernels", "whole", "torch's")
    sys.stdout.write(f"{'in us':40} {'calls/torch':>12} {' '.join(f'{column:>10}' for column in columns)} {'off':>8}\n")
    worst = 0.0
    for name in sorted({*torchs, *linked}, key=lambda name: -torchs.get(name, (0, 0, 0))[1]):
        calls, own, total = torchs.get(name, (0, 0.0, 0.0))
        entry = ours.get(name)
        mine = (entry.self_device_ns or 0) if entry is not None else 0
        if max(own, mine) < kernels / 1000:  # below a thousandth of all, a rounding to microseconds shows
            continue
        off = max(_off(mine, own), _off(mine, linked.get(name, 0)))
        worst = max(worst, off)
        whole = (entry.device_ns or 0) if entry is not None else 0
        times = [f"{spent / 1e3:.1f}" for spent in (mine, own, linked.get(name, 0), whole, total)]
        calls = f"{entry.calls if entry else 0}/{calls}"
        sys.stdout.write(f"{name[:40]:40} {calls:>12} {' '.join(f'{shown:>10}' for shown in times)} {off:8.2%}\n")
    mine = sum(entry.self_device_ns or 0 for entry in ours.values())
    off = _off(mine, kernels)
    sys.stdout.write(f"all: ours {mine / 1e3:.1f} us, kernels and copies {kernels / 1e3:.1f} us, {off:.2%}\n")
    sys.stdout.write(f"worst operator {worst:.2%}, reach {REACH_AGREE:.0%}\n")
    return int(max(worst, _off(mine, kernels)) > REACH_AGREE)


def _key_averages(made: Any) -> dict[str, tuple[int, float, float]]:
    """Calls, own and whole device time in ns, by what the host called."""
    import torch

    found: dict[str, tuple[int, float, float]] = {}
    for row in made.key_averages():
        if row.device_type == torch.autograd.DeviceType.CPU and not _is_ours(row.key):
            own = getattr(row, "self_device_time_total", None)
            own = row.self_cuda_time_total if own is None else own
            total = getattr(row, "device_time_total", None)
            total = row.cuda_time_total if total is None else total
            before = found.get(row.key, (0, 0.0, 0.0))
            found[row.key] = (before[0] + row.count, before[1] + own * 1000, before[2] + total * 1000)
    return {name: sums for name, sums in found.items() if sums[1] or sums[2]}


def _linked(events: Sequence[Any]) -> tuple[dict[str, int], int]:
    """Ns of kernels and copies by the operator that torch links them to, and of all."""
    import torch

    cpu = torch.autograd.DeviceType.CPU
    called = {
        event.correlation_id(): event.name()
        for event in events
        if event.device_type() == cpu and not event.linked_correlation_id() and not _is_ours(event.name())
    }
    found: dict[str, int] = {}
    whole = 0
    for event in events:
        if event.device_type() != cpu and not event.is_user_annotation():
            whole += event.duration_ns()
            name = called.get(event.linked_correlation_id())
            if name is not None:
                found[name] = found.get(name, 0) + event.duration_ns()
    return found, whole


def _is_ours(name: str) -> bool:
    """Marks of the probe; and calls of the driver that belong to no operator, whose numbers are of another kind."""
    return name.startswith(("mpsprobe::", "cuda", "cuL", "cuM", "cuS", "hip", "Activity Buffer", "Buffer Flush"))


def _off(one_value: float, other: float) -> float:
    return abs(one_value - other) / max(one_value, other, 1)


def main() -> int:
    """As the first words of the command say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("cost", "agree"))
    parser.add_argument("workload")
    parser.add_argument("phase", choices=("inference", "training"))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch-size", type=int)
    parser.add_argument("--seq-len", type=int)
    parser.add_argument("--threads", type=int, help="of torch on the CPU; 1 where other programs take turns with them")
    parser.add_argument("--steps", type=int, default=5, help="of each kind in a round")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=3600, help="after which no round begins")
    arguments = parser.parse_args()
    return {"cost": cost, "agree": agree}[arguments.what](arguments)


if __name__ == "__main__":
    sys.exit(main())
