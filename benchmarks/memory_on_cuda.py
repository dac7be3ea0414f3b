"""Predicted and measured memory of twenty workloads on a real GPU: the proof of ``mpsprobe_coverage.knowledge.memory``.

    python benchmarks/memory_on_cuda.py [--only NAME,…] [--jobs 5] [--device cuda] [-o results.jsonl]

It needs torch with CUDA, transformers and torchvision, and nothing of mpsprobe but its sources. Each workload runs in
a process of its own, several at a time (a peak is that of one process), and prints one line of JSON; the last line is
the summary. A workload that fails says so in its line.

Predicted: one step under ``FakeTensorMode``, without a GPU's memory; the storages' lifetimes, as every later step has
them. Measured: the second step, ``torch.cuda.max_memory_allocated`` and, over both, ``max_memory_reserved``. Next to it
``torch.distributed._tools.MemTracker`` on two steps of the same fake model. cuBLAS keeps a workspace for each thread
that calls it: what one matrix product and its derivative leave allocated is measured first (``workspaces``) and added
to both predictions. ``recorded`` is the same recorder on the real second step: where it agrees with the prediction and
not with the measurement, a kernel allocates what no operator returns.

``--device cpu`` checks the lifetimes without a GPU: what is measured is then what the recorder counts in a real run.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "plugins" / "mpsprobe-coverage" / "src"), str(Path(__file__).resolve().parent)]

LIMIT_S = 150  # for one workload


@dataclass
class Result:
    """Bytes. ``live`` is the peak of the storages, ``reserved`` what the allocator has of the driver."""

    live: int
    reserved: int


def measure_workspaces(device: str, training: bool) -> int:
    """What stays allocated after a matrix product with and without a bias, and in training after its derivative."""
    import torch

    if device != "cuda":
        return 0
    for dtype in (torch.float32, torch.bfloat16):
        x = torch.ones(256, 256, device=device, dtype=dtype, requires_grad=training)
        bias = torch.ones(256, device=device, dtype=dtype)
        y = torch.addmm(bias, x, x) + torch.nn.functional.linear(x, x, bias) + torch.bmm(x[None], x[None])[0]
        if training:
            y.sum().backward()
        del x, y, bias
    torch.cuda.synchronize()
    gc.collect()
    return torch.cuda.memory_allocated()


def recorded(workload: Any, device: str, steps: int, fake: bool) -> Any:
    """The events of ``steps`` steps, and where each begins in them."""
    import torch
    from real_memory import Tracking
    from torch._subclasses import FakeTensorMode

    from mpsprobe_coverage.knowledge.memory.lifetimes import OPTIMIZER, PARAMETERS, Lifetimes, label

    lifetimes = Lifetimes()
    begins = []

    @contextmanager
    def phase(name: str) -> Iterator[None]:
        lifetimes.phase(name)
        yield
        lifetimes.phase(None)

    mode: AbstractContextManager[Any] = FakeTensorMode(allow_non_fake_inputs=True) if fake else nullcontext()
    with mode, Tracking(lifetimes, device) as tracking:
        with torch.device(device):
            step = workload(phase)
        label(((tracking.held(one), None) for one in step.model.parameters()), PARAMETERS)
        for _ in range(steps):
            begins.append(len(lifetimes.events))
            step.take()
            state = step.optimizer.state.values() if step.optimizer else ()
            kept = [one for values in state for one in values.values() if isinstance(one, torch.Tensor)]
            label(((tracking.held(one), None) for one in kept), OPTIMIZER)
        events = lifetimes.end()
    return events, begins


def predict(workload: Any, device: str, workspaces: int) -> Result:
    """From one fake step; what the allocator reserves from two."""
    from real_memory import CudaAllocator

    from mpsprobe_coverage.knowledge.memory.allocator import replay
    from mpsprobe_coverage.knowledge.memory.timeline import Change, Storage, changes, timeline

    events, begins = recorded(workload, device, 2, fake=True)
    first = max(timeline(events[: begins[1]]).by_phase.values())  # those of the step, not of the construction
    own = Change(Storage(workspaces, "workspaces", None, None), True)
    both = [own, *changes(events, steady=False)]
    allocated = replay(both, CudaAllocator())
    return Result(live=first + workspaces, reserved=allocated.reserved)


def memtracker(workload: Any, device: str, workspaces: int) -> int | None:
    """The peak that PyTorch's own tracker finds; None where it raises."""
    import torch
    from torch._subclasses import FakeTensorMode
    from torch.distributed._tools.mem_tracker import MemTracker

    try:
        with FakeTensorMode(allow_non_fake_inputs=True):
            with torch.device(device):
                step = workload(lambda _: nullcontext())
            tracker = MemTracker()
            tracker.track_external(step.model, *([step.optimizer] if step.optimizer else []), *step.inputs)
            with tracker:
                step.take()
                tracker.reset_mod_stats()
                step.take()
            peak = tracker.get_tracker_snapshot("peak")
        of_device = next(one for where, one in peak.items() if where.type == device)
        return int(of_device["Total"]) + workspaces
    except Exception as error:  # noqa: BLE001 - whatever it raises is no result of it
        sys.stderr.write(f"MemTracker: {type(error).__name__}: {error}\n")
        return None


def measure(workload: Any, device: str) -> Result:
    """The second step on the real device."""
    import torch

    if device != "cuda":
        peak = recorded_peak(workload, device)
        return Result(peak, peak)
    with torch.device(device):
        step = workload(lambda _: nullcontext())
    step.take()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    step.take()
    torch.cuda.synchronize()
    return Result(torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved())


def recorded_peak(workload: Any, device: str) -> int:
    """The most bytes alive in the second step of a real run."""
    from mpsprobe_coverage.knowledge.memory.timeline import changes

    events, begins = recorded(workload, device, 2, fake=False)
    before = len(changes(events[: begins[1]], steady=False))
    live, most = 0, 0
    for position, change in enumerate(changes(events, steady=False)):
        live += change.storage.nbytes if change.begins else -change.storage.nbytes
        if position >= before:
            most = max(most, live)
    return most


def one(name: str, device: str) -> dict[str, Any]:
    """All figures of one workload."""
    import torch
    from memory_workloads import WORKLOADS

    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    workload: Callable[..., Any] = WORKLOADS[name]
    training = "train" in name
    workspaces = measure_workspaces(device, training)
    began = time.monotonic()
    predicted = predict(workload, device, workspaces)
    predicted_s = time.monotonic() - began
    tracker = memtracker(workload, device, workspaces)
    gc.collect()
    if device == "cuda":
        torch.cuda.empty_cache()
    measured = measure(workload, device)
    gc.collect()
    real = recorded_peak(workload, device) + workspaces if device == "cuda" else measured.live
    return {
        "name": name,
        "predicted": predicted.live,
        "measured": measured.live,
        "ratio": predicted.live / measured.live,
        "recorded": real,
        "memtracker": tracker,
        "memtracker_ratio": None if tracker is None else tracker / measured.live,
        "predicted_reserved": predicted.reserved,
        "measured_reserved": measured.reserved,
        "reserved_ratio": predicted.reserved / measured.reserved,
        "workspaces": workspaces,
        "predicted_s": round(predicted_s, 1),
    }


def in_a_process(name: str, device: str) -> dict[str, Any]:
    """As ``one``, elsewhere; what fails there is in the line."""
    command = [sys.executable, __file__, "--one", name, "--device", device]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        return {"name": name, "error": f"not done after {LIMIT_S} s"}
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        return {"name": name, "error": f"exit code {done.returncode}: " + done.stderr.strip()[-1500:]}
    found: dict[str, Any] = json.loads(lines[-1])
    if found["memtracker"] is None:
        found["memtracker_error"] = done.stderr.strip()[-300:]
    return found


def summary(results: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """How many are near, how far the farthest is, and the medians."""
    good = [one for one in results if "error" not in one]
    off = sorted((abs(one["ratio"] - 1), one["name"]) for one in good)
    paired = [one for one in good if one["memtracker_ratio"] is not None]
    return {
        "workloads": len(results),
        "failed": [one["name"] for one in results if "error" in one],
        "within_2_percent": sum(distance <= 0.02 for distance, _ in off),
        "within_5_percent": sum(distance <= 0.05 for distance, _ in off),
        "farthest": [(name, round(distance, 4)) for distance, name in off[::-1][:4]],
        "median_off": statistics.median([distance for distance, _ in off]) if off else None,
        "median_off_memtracker": statistics.median([abs(one["memtracker_ratio"] - 1) for one in paired])
        if paired
        else None,
        "reserved_within_10_percent": sum(abs(one["reserved_ratio"] - 1) <= 0.10 for one in good),
    }


def say(found: dict[str, Any]) -> None:
    """A line of JSON, at once."""
    sys.stdout.write(json.dumps(found) + "\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--one", help="Run this workload here and print its line.")
    parser.add_argument("--only", help="Names with commas.")
    parser.add_argument("--jobs", type=int, default=5, help="Workloads at a time.")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("-o", "--output", type=Path)
    asked = parser.parse_args()
    if asked.one:
        say(one(asked.one, asked.device))
        return
    from memory_workloads import WORKLOADS

    names = asked.only.split(",") if asked.only else list(WORKLOADS)
    results = []
    with ThreadPoolExecutor(asked.jobs) as pool:
        for found in pool.map(lambda name: in_a_process(name, asked.device), names):
            results.append(found)
            say(found)
    results.append({"summary": summary(results)})
    say(results[-1])
    if asked.output:
        asked.output.write_text("".join(json.dumps(found) + "\n" for found in results), encoding="utf-8")


if __name__ == "__main__":
    main()
