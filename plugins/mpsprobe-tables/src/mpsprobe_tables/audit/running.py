"""Entries on virtual devices: what they call there, with which verdicts, and what the CPU says to the same samples;
in several processes, which are spawned: that works on every platform, and torch does not survive a fork.

``run_entries`` is the way in for other parts of this package.
"""

from __future__ import annotations

import faulthandler
import functools
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, fields
from multiprocessing import get_context, parent_process
from typing import Any, TypeVar

import torch

from mpsprobe.progress import SilentProgress
from mpsprobe_coverage.devices.virtual.wrapping import NotStrided
from mpsprobe_coverage.knowledge.judging.lists import Lists
from mpsprobe_coverage.knowledge.kernels.kernel_facts import load_facts
from mpsprobe_coverage.knowledge.kernels.mps import load_table
from mpsprobe_coverage.knowledge.kernels.table import KernelTable
from mpsprobe_tables.audit.device import SHADOW_LIMIT, AuditDevice, Seen
from mpsprobe_tables.audit.entries import GRADIENT_DTYPES, dtype_named, entries, entry_named
from mpsprobe_tables.audit.procedure import (
    Reference,
    ask,
    backward,
    draw,
    draws_other_gradients,
    forward,
    is_for_mps,
    message,
    on_cpu,
    undisturbed,
)
from mpsprobe_tables.expectations import load_expectations

PROVENANCE = frozenset({"release", "wheel", "sha256", "commit"})
SAMPLES, FORWARD, BACKWARD = "samples", "forward", "backward"


@dataclass(frozen=True, slots=True)
class Raised:
    """The device raised."""

    phase: str  # ``samples``, ``forward`` or ``backward``
    sample: int  # its number, from 0; -1 while samples were drawn
    message: str  # the error
    reference_works: bool  # the CPU did the same without one, so the device is wrong


@dataclass(slots=True)
class Ran:
    """One entry with one dtype on the virtual device of one release: each kind of call once, and errors."""

    calls: tuple[Seen, ...] = ()
    raised: tuple[Raised, ...] = ()


@dataclass(slots=True)
class Pair:
    """One entry with one dtype."""

    entry: str
    dtype: str
    samples: int = 0  # how many there are
    drawing: str | None = None  # why the samples could not be drawn on the CPU; None where they could
    # forward, gradient: the first error of the CPU reference, with the number of the sample before it
    forward: str | None = None
    gradient: str | None = None
    upcast: bool = False  # the reference raises only for want of a kernel for the dtype, and works in float32
    exact: bool = True  # what it gives there survives the cast back
    differentiable: bool = True  # the entry has gradients
    # plain, plain_gradient: where it has none, the same with samples that ask for none
    plain: str | None = None
    plain_gradient: str | None = None
    random_gradient: bool = False  # its gradients depend on random numbers that the forward pass drew
    runs: dict[tuple[str, Lists], Ran] = field(default_factory=dict)  # release and lists → what happened on that device


def run_entries(
    keys: Iterable[str],
    dtype: str,
    tables: Sequence[KernelTable],
    *,
    lists: Sequence[Lists] = ("none",),
    outcomes: dict[Any, Any] | None = None,
    gradient: bool | None = None,
) -> list[Pair]:
    """Run entries with ``dtype`` on the virtual device of each release, and on the CPU.

    Raises UnknownName: an entry or dtype that is not there.

    Args:
        keys: entries, as in ``entries()``.
        tables: one for each release.
        lists: which lists of PyTorch's tests to judge by in addition to the mechanism: one or two.
        outcomes: one dict for several calls spares work.
        gradient: compute gradients too (default: for the dtypes of which PyTorch's test compares them).
    """
    dtype_named(dtype)
    with_gradient = dtype in GRADIENT_DTYPES if gradient is None else gradient
    remembered: dict[Any, Any] = {} if outcomes is None else outcomes
    entries()  # the modules that ``undisturbed`` looks into
    with undisturbed():
        prepared = [_prepared(key, dtype, with_gradient) for key in keys]
        done: list[KernelTable] = []
        for table in tables:
            twin = next((earlier for earlier in done if alike(earlier, table)), None)
            done.append(table)
            if twin is not None:
                for sample in prepared:
                    sample.pair.runs |= {(table.release, mode): sample.pair.runs[twin.release, mode] for mode in lists}
                continue
            with AuditDevice(table, lists=lists[0], other=lists[-1], outcomes=remembered) as device:
                for sample in prepared:
                    raised = _run(device, sample, with_gradient)
                    for mode, calls in zip((lists[0], lists[-1]), device.short.take_both(), strict=True):
                        sample.pair.runs[table.release, mode] = Ran(calls, raised)
        for sample in prepared:
            if with_gradient and _draws(sample.pair):
                sample.pair.random_gradient = draws_other_gradients(sample.entry, sample.drawn)
    return [ready.pair for ready in prepared]


@dataclass(slots=True)
class _Prepared:
    """A pair with its samples; ``distinct`` are the numbers of those that are not like an earlier one."""

    entry: Any
    pair: Pair
    drawn: list[Any]
    references: list[Reference]
    distinct: list[int]


def alike(kernel_table: KernelTable, other: KernelTable) -> bool:
    """Whether two patch releases differ in nothing that a device asks for: what one does, the other does."""
    if kernel_table.release.rpartition(".")[0] != other.release.rpartition(".")[0]:
        return False
    known = [field.name for field in fields(KernelTable) if field.name not in PROVENANCE]
    facts = [load_facts(table.release) for table in (kernel_table, other)]
    shown = [(fact.kernels, fact.operators) for fact in facts]
    return shown[0] == shown[1] and all(getattr(kernel_table, name) == getattr(other, name) for name in known)


def _prepared(key: str, dtype: str, gradient: bool) -> _Prepared:
    entry, pair = entry_named(key), Pair(key, dtype)
    try:
        drawn = draw(entry, dtype)
    except Exception as error:  # noqa: BLE001 - whatever a sampler raises is the answer
        pair.drawing = message(error)
        return _Prepared(entry, pair, [], [], [])
    references = on_cpu(entry, dtype, drawn, gradient)
    pair.samples = len(drawn)
    pair.forward = _first(reference.forward for reference in references)
    pair.gradient = _first(reference.gradient for reference in references)
    pair.exact = all(reference.exact for reference in references)
    pair.differentiable = entry.supports_autograd
    if (pair.forward or pair.gradient) is not None and not pair.differentiable:
        plain = on_cpu(entry, dtype, draw(entry, dtype, gradients=False), gradient)
        pair.plain = _first(result.forward for result in plain)
        pair.plain_gradient = _first(result.gradient for result in plain)
    pair.upcast = pair.forward is not None and all(
        reference.upcast or reference.forward is None for reference in references
    )
    return _Prepared(entry, pair, drawn, references, _distinct(drawn))


def _first(errors: Iterable[str | None]) -> str | None:
    return next((f"sample {number}: {error}" for number, error in enumerate(errors) if error is not None), None)


def _run(device: AuditDevice, prepared: _Prepared, gradient: bool) -> tuple[Raised, ...]:
    raised: list[Raised] = []
    if prepared.pair.drawing is None:
        try:
            samples = {number: device.sample(prepared.drawn[number]) for number in prepared.distinct}
        except NotStrided:  # a Mac makes them with MPS as well, so that is where they are asked for
            samples = _drawn_there(device, prepared, raised)
    else:
        samples = _drawn_there(device, prepared, raised)
    for number, sample in samples.items():
        if (failed := step_on(device, prepared.entry, sample, gradient)) is not None:
            phase, error = failed
            known = prepared.references[number : number + 1]
            works = any((result.forward if phase == FORWARD else result.gradient) is None for result in known)
            raised.append(Raised(phase, number, error, works))
    return tuple(raised)


def step_on(device: AuditDevice, entry: Any, sample: Any, gradient: bool) -> tuple[str, str] | None:
    """The entry's result for the sample, and its gradients; where that raised, the phase and the error."""
    phase = FORWARD
    try:
        with device.recording(phase):
            output = forward(entry, sample)
        if gradient:
            phase = BACKWARD
            compute = backward(entry, sample, output, torch.ones_like)
            if compute is not None:
                with device.recording(phase):
                    compute()
    except Exception as error:  # noqa: BLE001 - whether it is the device's fault is decided by the CPU
        return phase, message(error)
    return None


def _drawn_there(device: AuditDevice, prepared: _Prepared, raised: list[Raised]) -> dict[int, Any]:
    """The samples as the device makes them; none where a call of the sampler itself fails there."""
    try:
        with device.recording(SAMPLES):
            return dict(enumerate(ask(prepared.entry, prepared.pair.dtype)))
    except Exception as error:  # noqa: BLE001 - as above; the CPU raised as well, or the tensors are sparse
        raised.append(Raised(SAMPLES, -1, message(error), reference_works=False))
        return {}


def _distinct(samples: Sequence[Any]) -> list[int]:
    """Numbers of the samples whose kernels, shapes, dtypes and arguments no earlier one has."""
    first: dict[Any, int] = {}
    for number, sample in enumerate(samples):
        first.setdefault(likeness((sample.input, sample.args, sample.kwargs)), number)
    return list(first.values())


def _of_tensor(value: torch.Tensor) -> Any:
    """What tensors share if samples with them take the same way: values count where a program may read them."""
    if value.layout is not torch.strided:
        return id(value)
    exact = not (value.dtype.is_floating_point or value.dtype.is_complex)
    values = tuple(value.flatten().tolist()) if exact and value.numel() <= SHADOW_LIMIT else None
    alike = value.shape, value.stride(), value.dtype, value.requires_grad, value.is_conj()
    return *alike, is_for_mps(value), values


def likeness(value: Any, of_tensor: Callable[[torch.Tensor], Any] = _of_tensor) -> Any:
    """What two samples share that are alike: arguments, and of their tensors what ``of_tensor`` gives."""
    if isinstance(value, torch.Tensor):
        return of_tensor(value)
    if isinstance(value, dict):
        return tuple((name, likeness(inner, of_tensor)) for name, inner in value.items())
    if isinstance(value, (list, tuple)):
        return type(value), tuple(likeness(inner, of_tensor) for inner in value)
    return type(value), repr(value)


def _draws(pair: Pair) -> bool:
    return any(_is_random(seen.operator) for ran in pair.runs.values() for seen in ran.calls)


@functools.cache
def _is_random(operator: str) -> bool:
    """Whether the operator draws random numbers, as its tag says; False for one that this torch does not have."""
    namespace, _, rest = operator.partition("::")
    name, _, overload = rest.partition(".")
    packet = getattr(getattr(torch.ops, namespace), name, None)
    overloaded = getattr(packet, overload or "default", None)
    return overloaded is not None and torch.Tag.nondeterministic_seeded in overloaded.tags


P = TypeVar("P")
R = TypeVar("R")
WHAT = "OpInfo entries"
CHUNK = 24  # entries that one process takes at a time: few enough that none idles at the end

_outcomes: dict[Any, Any] = {}  # of this process: what operators return is the same in each release


@dataclass(frozen=True, slots=True)
class Task:
    """What one process does at a time."""

    dtype: str
    keys: tuple[str, ...]
    releases: tuple[str, ...]
    lists: tuple[Lists, ...]


def default_jobs() -> int:
    """One process for each CPU that this one may use."""
    asked = getattr(os, "sched_getaffinity", None)
    return len(asked(0)) if asked is not None else (os.cpu_count() or 1)


def entries_to_run(dtype: str, releases: Iterable[str]) -> list[str]:
    """The installed entries that PyTorch's test of one of the releases runs with ``dtype``, or that the CPU takes."""
    expected = [load_expectations(release) for release in releases]
    keys = []
    for key, entry in entries().items():
        on_cpu = {str(dtype).removeprefix("torch.") for dtype in entry.dtypes}
        if dtype in on_cpu or any(expectations.tests(key, dtype, on_cpu) for expectations in expected):
            keys.append(key)
    return keys


def tasks_for(
    dtypes: Sequence[str], releases: Sequence[str], lists: Sequence[Lists], only: Sequence[str] = ()
) -> list[Task]:
    """The work in pieces, each with entries from all over the database, so that they take about as long."""
    queued = []
    for dtype in dtypes:
        keys = [key for key in entries_to_run(dtype, releases) if not only or key in only]
        pieces = -(-len(keys) // CHUNK)
        queued += [Task(dtype, tuple(keys[first::pieces]), tuple(releases), tuple(lists)) for first in range(pieces)]
    return queued


def in_processes(function: Callable[[P], R], pieces: Sequence[P], jobs: int) -> Iterator[R]:
    """What ``function`` makes of each piece, in order, in ``jobs`` processes, or in this one for 1."""
    if jobs == 1 or len(pieces) == 1:
        yield from map(function, pieces)
    else:
        with ProcessPoolExecutor(jobs, get_context("spawn"), start) as pool:
            yield from pool.map(function, pieces)


def run_tasks(tasks: Sequence[Task], jobs: int, progress: SilentProgress) -> list[Pair]:
    """All pairs, in the order of the tasks; ``jobs`` processes, or this one for 1.

    Raises BrokenProcessPool: an entry ended its process (a crash in C++); standard error says which.
    """
    all_pairs: list[Pair] = []
    progress.start(len(tasks), WHAT)
    for task, pairs in zip(tasks, in_processes(work, tasks, jobs), strict=True):
        all_pairs += pairs
        progress.advance(f"{WHAT}, {task.dtype}")
    _outcomes.clear()
    return all_pairs


def work(task: Task) -> list[Pair]:
    """One task, in this process."""
    tables = [load_table(release) for release in task.releases]
    return run_entries(task.keys, task.dtype, tables, lists=task.lists, outcomes=_outcomes)


def start() -> None:
    """Begin a process of a pool of ours."""
    faulthandler.enable()  # a kernel that ends the process says on standard error which entry called it
    torch.set_num_threads(1)  # the processes are as many as the CPUs
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A process whose parent was killed would go on for ever: nothing tells it."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
