"""Whether ``mpsprobe verify`` finds kernels that are wrong, and finds nothing where none is.

    python benchmarks/planted_faults.py faults [--device virtual] [--count 60] [--seed 0]
    python benchmarks/planted_faults.py alarms [--device cuda] [--workloads 40] [--processes 5]
    python benchmarks/planted_faults.py times [--device cuda] [--workload bert-base]

``faults`` draws kernels of four small models and puts a wrong one in the place of each, through the dispatcher: wrong
at a size, for a layout, in a dtype, in the gradient, from the second sample on, or at one call of several. A fault is
found if its operator is the first that the report names. ``alarms`` verifies workloads as they are, in three dtypes and
both phases, with few layers. ``times`` compares a verification with a step on each device: ``ratio`` is that of what it
takes without loading the workload to the sum of both steps, on the virtual device in processor time. The last line is
JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing import active_children, get_context
from pathlib import Path
from random import Random
from typing import Any

import torch
from torch.utils._pytree import tree_map

from mpsprobe.errors import UsageError
from mpsprobe.plugins.registry import get_registry
from mpsprobe.progress import SilentProgress
from mpsprobe.protocols import RunOptions
from mpsprobe.stepping import TorchStep
from mpsprobe_coverage.knowledge.calls.spec import tensors_in
from mpsprobe_coverage.recording.phases import optimizers_followed, phase_now
from mpsprobe_coverage.verifying.copying import copied
from mpsprobe_coverage.verifying.device_operators import ELSEWHERE, NOT_COMPARED
from mpsprobe_coverage.verifying.device_to_compare import opened
from mpsprobe_coverage.verifying.drawing import Drawing, is_random, settled
from mpsprobe_coverage.verifying.operators import UNINITIALISED
from mpsprobe_coverage.verifying.runs import built, placed
from mpsprobe_coverage.verifying.verification import Verification

KINDS = ("size", "layout", "dtype", "gradient", "batch", "rarely")
HARMS = ("scaled", "rolled", "row", "negated", "nan")
DTYPES = ("float32", "float16", "bfloat16")
CARRIERS = ("aten::copy_", "aten::_to_copy", "aten::fill_", "aten::_local_scalar_dense", "aten::zeros", "aten::ones")
"""What the faulty kernels themselves need, and what computes nothing."""


class Block(torch.nn.Module):
    """A layer of a transformer, with causal attention."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.qkv, self.out = torch.nn.LayerNorm(32), torch.nn.Linear(32, 96), torch.nn.Linear(32, 32)
        self.mlp = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.GELU(), torch.nn.Linear(64, 32))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, length, 32) → the same."""
        q, k, v = self.qkv(self.norm(x)).view(*x.shape[:2], 3, 4, 8).permute(2, 0, 3, 1, 4)
        weights = (q @ k.transpose(-2, -1) / 8**0.5 + torch.full((x.shape[1],) * 2, -1e4).triu(1).to(x)).softmax(-1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(x.shape))
        return x + self.mlp(x)


class Gates(torch.nn.Module):
    """Embeddings, gates and reductions, written by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.up, self.down = torch.nn.Embedding(50, 24), torch.nn.Linear(24, 48), torch.nn.Linear(24, 6)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """(batch, length) of numbers below 50 → (batch, 6)."""
        x, gate = self.up(self.table(tokens)).chunk(2, -1)
        x = torch.tanh(x) * torch.sigmoid(gate) + torch.nn.functional.softplus(gate)
        x = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)
        return self.down(torch.cat([x.cumsum(1).mean(1)[:, :12], x.amax(1)[:, 12:]], -1)).log_softmax(-1)


def models() -> dict[str, tuple[torch.nn.Module, Any]]:
    """Each with what it is called with."""
    torch.manual_seed(0)
    images = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.ConvTranspose2d(8, 4, 2, 2), torch.nn.GroupNorm(2, 4), torch.nn.SiLU(),
        torch.nn.Upsample(scale_factor=2),
        torch.nn.AvgPool2d(2), torch.nn.Flatten(), torch.nn.Linear(256, 5), torch.nn.LogSoftmax(-1),
    )  # fmt: skip
    channels_last = torch.nn.Sequential(
        torch.nn.Conv2d(4, 8, 3), torch.nn.Hardswish(), torch.nn.AdaptiveAvgPool2d(2), torch.nn.Flatten(),
        torch.nn.ELU(),
        torch.nn.Linear(32, 4), torch.nn.LeakyReLU(),
    )  # fmt: skip
    return {
        "blocks": (torch.nn.Sequential(Block(), Block(), torch.nn.Linear(32, 5)), torch.randn(3, 7, 32)),
        "images": (images, torch.randn(4, 3, 8, 8)),
        "channels last": (channels_last, torch.randn(3, 4, 9, 9).contiguous(memory_format=torch.channels_last)),
        "gates": (Gates(), torch.randint(0, 50, (4, 9))),
    }


@dataclass(frozen=True)
class Fault:
    """A kernel of ``func`` that is wrong where ``kind`` says, in one of the ``HARMS``."""

    model: str
    dtype: str
    func: Any
    kind: str
    harm: str
    shape: tuple[int, ...]  # of its first tensor, for ``size``
    number: int  # of the call, for ``rarely``
    strength: float

    @property
    def operator(self) -> str:
        """As reports name it."""
        return str(self.func).replace("aten.", "aten::", 1).removesuffix(".default")

    def __str__(self) -> str:
        return f"{self.operator} {self.kind} {self.harm} ({self.model}, {self.dtype})"


class Noting(Drawing):
    """Notes the calls on a device that may be replaced."""

    def __init__(self, device: str, dtype: torch.dtype) -> None:
        super().__init__(dtype)
        self._device = device
        self.calls: list[tuple[Any, str, tuple[int, ...], bool, torch.dtype]] = []

    def computed(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run it, and note it."""
        result = func(*args, **kwargs)
        tensors, name = tensors_in((args, kwargs)), func._schema.name
        first = tensors_in(result)
        fine = first and first[0].is_floating_point() and first[0].numel() > 1 and tensors
        fine = fine and not name.startswith((*UNINITIALISED, *CARRIERS)) and name not in NOT_COMPARED
        here = all(one.device.type == self._device for one in tensors if one.dim())
        if fine and here and not func.is_view and not is_random(func):
            strided = any(not one.is_contiguous() for one in tensors)
            self.calls.append((func, phase_now(), tuple(tensors[0].shape), strided, first[0].dtype))
        return result


def drawn(seed: int, count: int, device: str) -> list[Fault]:
    """``count`` faults, as many of each kind, no two with one operator, kind and dtype."""
    chance, faults, known = Random(seed), [], set()
    calls = {(name, dtype): _calls(name, dtype, device) for name in models() for dtype in DTYPES}
    while len(faults) < count:
        kind = KINDS[len(faults) % len(KINDS)]
        name = chance.choice(sorted(models()))
        dtype = chance.choice(DTYPES[1:]) if kind == "dtype" else chance.choice(DTYPES)
        noted = [one for one in calls[name, dtype] if _fits(kind, one)]
        if not noted:
            continue
        func, _, shape, _, of = chance.choice(noted)
        if (kind == "dtype" and str(of) != f"torch.{dtype}") or (func, kind, dtype) in known:
            continue
        known.add((func, kind, dtype))
        times = sum(one[0] is func for one in calls[name, dtype])
        low, high = (1.3, 1.9) if dtype != "float32" else (1.01, 1.5)
        faults.append(
            Fault(
                name,
                dtype,
                func,
                kind,
                chance.choice(HARMS),
                shape,
                chance.randint(1, times),
                chance.uniform(low, high),
            )
        )
    return faults


def _fits(kind: str, call: Any) -> bool:
    func, phase, shape, strided, _ = call
    if kind == "gradient":
        return phase == "backward" and "backward" in func._schema.name
    return {"layout": strided, "batch": phase == "forward" and len(shape) > 1 and shape[0] > 1}.get(kind, True)


def _workload(name: str, dtype: str) -> Any:
    model, inputs = models()[name]
    kind = getattr(torch, dtype)
    inputs = inputs.to(kind) if inputs.is_floating_point() else inputs
    return get_registry().workload_of(model.to(kind), inputs)


def _options(dtype: str) -> RunOptions:
    return RunOptions(phase="training", dtype=dtype)


def _calls(name: str, dtype: str, device: str) -> list[Any]:
    run, mode = built(_workload(name, dtype), _options(dtype)), Noting(device, getattr(torch, dtype))
    run = placed(run, device)
    with settled(run.model, lambda text: None), optimizers_followed(), mode:
        TorchStep(run, _options(dtype), device, foreach=False).take()
    return [one for one in mode.calls if one[1] != "optimizer"]


@contextmanager
def planted(fault: Fault, device: str) -> Iterator[None]:
    """The dispatcher calls a wrong kernel on ``device``: the CPU's result, harmed."""
    func, calls = fault.func, [0]
    writes = [
        n for n, one in enumerate(func._schema.arguments) if one.alias_info is not None and one.alias_info.is_write
    ]

    def kernel(*args: Any, **kwargs: Any) -> Any:
        calls[0] += 1
        own_args, own_kwargs = copied((args, kwargs), "cpu")
        instead = ELSEWHERE.get(func._schema.name, func)
        result = instead(*own_args, **own_kwargs)
        if _concerned(fault, tensors_in((args, kwargs)), calls[0]):
            first = tensors_in(result)[0]
            first.copy_(harmed(first, fault))
        if writes:
            for position in writes:
                args[position].copy_(own_args[position])
            return args[writes[0]]
        return tree_map(lambda one: one.to(device) if isinstance(one, torch.Tensor) else one, result)

    library = torch.library.Library("aten", "IMPL")
    name = func._schema.name.removeprefix("aten::")
    overload = f".{func._schema.overload_name}" if func._schema.overload_name else ""
    library.impl(name + overload, kernel, {"mps": "MPS", "cuda": "CUDA"}[device], allow_override=True)
    try:
        yield
    finally:
        library._destroy()


def _concerned(fault: Fault, tensors: list[torch.Tensor], number: int) -> bool:
    if fault.kind == "size":
        return tuple(tensors[0].shape) == fault.shape
    if fault.kind == "layout":
        return any(not one.is_contiguous() for one in tensors)
    return number == fault.number if fault.kind == "rarely" else True


def harmed(right: torch.Tensor, fault: Fault) -> torch.Tensor:
    """A wrong result in the place of ``right``; from the second sample on for ``batch``."""
    wrong = right.clone()
    part = wrong[1:] if fault.kind == "batch" and wrong.dim() and wrong.shape[0] > 1 else wrong
    flat = part.reshape(-1) if part.is_contiguous() else None
    largest = int(part.abs().argmax())
    if fault.harm == "nan" and flat is not None:
        flat[largest] = float("nan")
    elif fault.harm == "negated" and flat is not None:
        flat[largest] = -flat[largest] if flat[largest] else 1.0
    elif fault.harm == "row" and part.dim() > 1 and bool(part[-1].any()):
        part[-1] = 0
    elif fault.harm == "rolled" and not torch.equal(moved := part.roll(1, -1), part):
        part.copy_(moved)
    else:
        part.mul_(fault.strength)
        if torch.equal(wrong, right):
            part.add_(1.0)
    return wrong


def faults(arguments: argparse.Namespace) -> dict[str, Any]:
    """Plant each, verify, and say which were found."""
    device = "mps" if arguments.device == "virtual" else arguments.device
    lines, found = [], 0
    with opened(get_registry(), arguments.device) as there:
        for fault in drawn(arguments.seed, arguments.count, device):
            with planted(fault, device):
                workload = _workload(fault.model, fault.dtype)
                report = _verified(workload, _options(fault.dtype), there).report()
            names = [one.operator for one in report.wrong]
            first = bool(names) and names[0] == fault.operator
            found += first
            lines.append({"fault": str(fault), "first": names[:1], "named": fault.operator in names, "found": first})
            say(f"{'found' if first else 'MISSED'}: {fault}; named: {', '.join(names[:3]) or 'nothing'}")
    return {"planted": len(lines), "found": found, "missed": [one for one in lines if not one["found"]]}


def _alarm(task: tuple[str, str, str, str]) -> dict[str, Any]:
    name, dtype, phase, device = task
    torch.set_num_threads(2)
    made: dict[str, Any] = {"workload": name, "dtype": dtype, "phase": phase, "calls": 0, "alarms": []}
    try:
        with opened(get_registry(), device) as there:
            start = time.monotonic()
            workload, options = get_registry().workload(name), RunOptions(phase=phase, dtype=dtype, size="small")
            try:
                checked = _verified(workload, replace(options, batch_size=2, seq_len=32), there)
            except UsageError:  # it has no such sizes
                checked = _verified(workload, options, there)
            report = checked.report()
    except Exception as error:  # noqa: BLE001 - one workload of many
        return {**made, "error": f"{type(error).__name__}: {error}"[:200]}
    made |= {"calls": report.calls, "seconds": round(time.monotonic() - start, 1), "skipped": report.skipped}
    made["alarms"] = [one.model_dump(exclude={"rtol", "atol"}) for one in report.wrong]
    made["tensors"] = [f"{one.what} {one.name} {one.error} {one.cpu_error}" for one in report.tensors if one.wrong][:3]
    made["failure"] = report.failure and report.failure.message[:200]
    return made | {"parted": report.parted, "notes": report.notes}


def _alarm_apart(task: tuple[str, str, str, str]) -> dict[str, Any]:
    """In a process of its own: one that the system ends, for want of memory, takes no other with it."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as alone:
        try:
            return alone.submit(_alarm, task).result()
        except BrokenProcessPool:
            name, dtype, phase, _ = task
            ended = {"error": "the system ended its process", "calls": 0, "alarms": []}
            return {"workload": name, "dtype": dtype, "phase": phase, **ended}


def _verified(workload: Any, options: RunOptions, there: Any) -> Verification:
    return Verification(workload, options, there, SilentProgress(), lambda text: None)


def alarms(arguments: argparse.Namespace) -> dict[str, Any]:
    """Verify workloads as they are: whatever is named is a false alarm, or an error of the device."""
    from mpsprobe_hf.catalog import entries

    names = arguments.names or Random(arguments.seed).sample(
        sorted(entries()), min(arguments.workloads, len(entries()))
    )
    tasks = [
        (name, dtype, phase, arguments.device)
        for phase in arguments.phases
        for name in names
        for dtype in DTYPES
        if phase in entries()[name].phases
    ]
    done: list[dict[str, Any]] = []
    with ThreadPoolExecutor(arguments.processes) as pool:
        jobs = [pool.submit(_alarm_apart, task) for task in tasks]
        try:
            for job in as_completed(jobs, timeout=arguments.seconds):
                done.append(one := job.result())
                named = ", ".join(alarm["operator"] for alarm in one["alarms"])
                said = one.get("error") or one.get("failure") or named or "right"
                say(f"{one['workload']} {one['dtype']} {one['phase']}: {one['calls']} calls, {said}")
        except TimeoutError:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in active_children():
                process.terminate()
    if arguments.output:
        Path(arguments.output).write_text(json.dumps(done, indent=1), encoding="utf-8")
    calls, wrong = (sum(one["calls"] for one in done), sum(alarm["calls"] for one in done for alarm in one["alarms"]))
    failed = [
        f"{one['workload']} {one['dtype']} {one['phase']}" for one in done if one.get("error") or one.get("failure")
    ]
    return {"tasks": len(tasks), "done": len(done), "failed": failed, "calls": calls, "alarms": wrong}


def times(arguments: argparse.Namespace) -> dict[str, Any]:
    """A step on each device, a verification of it, and how long the workload takes to load, which both do."""
    registry, options = get_registry(), RunOptions(phase="training")
    found: dict[str, Any] = {}
    clock = time.process_time if arguments.device == "virtual" else time.monotonic
    with opened(registry, arguments.device) as there:
        device = "mps" if arguments.device == "virtual" else arguments.device
        workload = registry.workload(arguments.workload)
        built(workload, options)  # what a library imports and a file system reads is not the loading that is timed
        for name in ("cpu", device):
            start = clock()
            run = built(workload, options)
            found["loading_s"] = round(clock() - start, 3)
            run = placed(run, name)
            step = TorchStep(run, options, name)
            for _ in range(2):
                start = clock()
                step.take()
                registry.device(name).synchronize() if arguments.device != "virtual" else None
                found[f"{name}_step_s"] = round(clock() - start, 3)
            del run, step
        if device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        start = clock()
        report = Verification(workload, options, there, SilentProgress(), say).report()
        found |= {"verify_s": round(clock() - start, 3), "calls": report.calls, "wrong": len(report.wrong)}
        if device == "cuda":
            found["peak_bytes"] = torch.cuda.max_memory_allocated()
        steps = found["cpu_step_s"] + found[f"{device}_step_s"]
        found["ratio"] = round((found["verify_s"] - found["loading_s"]) / steps, 2)
    return found


def say(text: str) -> None:
    """A line on standard output."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> int:
    """Run what was asked for; 1 where a fault was missed or more than one operator in a hundred is an alarm."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("faults", "alarms", "times"))
    parser.add_argument("--device", default="virtual")
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workloads", type=int, default=40)
    parser.add_argument("--names", nargs="+")
    parser.add_argument("--phases", nargs="+", default=["inference", "training"])
    parser.add_argument("--processes", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--workload", default="bert-base")
    parser.add_argument("-o", "--output")
    arguments = parser.parse_args()
    result = {"faults": faults, "alarms": alarms, "times": times}[arguments.what](arguments)
    say(json.dumps(result))
    return int(bool(result.get("missed")) or result.get("alarms", 0) * 100 > result.get("calls", 1))


if __name__ == "__main__":
    sys.exit(main())
