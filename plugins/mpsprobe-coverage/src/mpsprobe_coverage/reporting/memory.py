"""What a run on the virtual device holds in memory: which storages are the model's, and the section of the report."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from operator import attrgetter
from typing import Any

import torch

from mpsprobe.schemas import (
    AllocatingCall,
    Allocation,
    AllocationList,
    MemoryFit,
    MemoryHolder,
    MemoryPoint,
    MemoryPrediction,
    NotCounted,
)
from mpsprobe.stepping import TorchStep
from mpsprobe_coverage.devices.virtual import VirtualDevice
from mpsprobe_coverage.devices.virtual.tensor import VirtualTensor
from mpsprobe_coverage.knowledge.calls.spec import tensors_in
from mpsprobe_coverage.knowledge.memory import lifetimes
from mpsprobe_coverage.knowledge.memory.allocator import Allocator, Limits, Place, allocator_of, replay
from mpsprobe_coverage.knowledge.memory.inside_kernels import not_counted
from mpsprobe_coverage.knowledge.memory.lifetimes import Event, Held, Made, label, of_step
from mpsprobe_coverage.knowledge.memory.timeline import INSIDE, Change, Storage, peak_with_output_kept, timeline
from mpsprobe_coverage.reporting.findings import site
from mpsprobe_coverage.reporting.fitting import Needs

MADE_BY_CALLS = (lifetimes.ACTIVATIONS, lifetimes.TEMPORARY, INSIDE)
MOST_HOLDERS = 12
MOST_MODULES = 24
KEPT_SHARE = 0.05  # of the peak: what an output adds that is kept is said from here on
DEEP = 4  # of lists and objects in which a cache keeps its tensors


def label_model(model: torch.nn.Module) -> None:
    _label(_by_module(model.named_parameters()), lifetimes.PARAMETERS)
    _label(_by_module(model.named_buffers()), lifetimes.BUFFERS)


def label_inputs(*values: Any) -> None:
    _label(((None, tensor) for tensor in tensors_in(values)), lifetimes.INPUTS)


def label_cache(*values: Any) -> None:
    """Say which storages ``values``, a cache or an output that has one, keep for the next token."""
    _label(((None, tensor) for tensor in _tensors(values, DEEP + 1)), lifetimes.CACHE)


def label_outputs(output: Any) -> None:
    """Say which storages a model returned in training."""
    for tensor in _tensors(output):
        for held in _held(tensor):
            held.block.is_output = True


@contextmanager
def labelling(device: VirtualDevice, step: TorchStep, phase: str) -> Iterator[None]:
    """A phase of ``step``, recorded; what are gradients and what the optimizer keeps is said where they are known."""
    parameters = [*_by_module(step.run.model.named_parameters())]
    if phase == "optimizer":
        _label(((module, parameter.grad) for module, parameter in parameters), lifetimes.GRADIENTS)
    with device.recording(phase):
        yield
    if phase == "optimizer":
        modules = {id(parameter): module for module, parameter in parameters}
        kept = getattr(step.optimizer, "state", {}).items()
        tensors = ((modules.get(id(of)), tensor) for of, state in kept for tensor in _tensors(state))
        _label(tensors, lifetimes.OPTIMIZER)


def _by_module(named: Iterable[tuple[str, torch.Tensor]]) -> Iterator[tuple[str, torch.Tensor]]:
    return ((name.rpartition(".")[0], tensor) for name, tensor in named)


def _label(tensors: Iterable[tuple[str | None, Any]], category: str) -> None:
    label(((held, module) for module, tensor in tensors for held in _held(tensor)), category)


def _held(tensor: Any) -> Iterator[Held]:
    """What stands for the storages of a tensor, or of those that it holds."""
    if isinstance(tensor, VirtualTensor):
        if tensor.memory is not None:
            yield tensor.memory
    elif hasattr(tensor, "__tensor_flatten__"):
        for name in tensor.__tensor_flatten__()[0]:
            yield from _held(getattr(tensor, name))


def _tensors(value: Any, deep: int = DEEP) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, torch.nn.Module) or not deep:
        return
    elif isinstance(value, dict):
        yield from _tensors([*value.values()], deep)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _tensors(part, deep - 1)
    elif hasattr(value, "__dict__"):
        yield from _tensors(vars(value), deep)


def prediction(
    events: Sequence[Event],
    release: str,
    macos: str | None,
    fits: Callable[[Needs, Sequence[Event]], Sequence[MemoryFit]],
    *,
    detailed: bool = False,
) -> MemoryPrediction | None:
    """The section of the report, with every allocation if ``detailed``; None where nothing was on the device.

    ``macos`` is the version that is asked about, None for a new one; ``fits`` says whether what is needed fits, on the
    Mac that was asked about or on several.
    """
    events = of_step(events)
    line = timeline(events)
    if not line.peak:
        return None
    kept = peak_with_output_kept(line.changes) - line.peak
    needs = Needs(release, line.changes)
    fitting = fits(needs, events)
    return MemoryPrediction(
        peak_bytes=line.peak,
        phase=line.phase,
        by_category=_sizes(line.alive, attrgetter("category")),
        by_phase=line.by_phase,
        by_module=dict([*_sizes(line.alive, attrgetter("inside")).items()][:MOST_MODULES]),
        holders=_holders(line.alive),
        curve=[MemoryPoint(phase=phase, bytes=height) for phase, height in line.curve],
        largest_bytes=line.largest.nbytes if line.largest else 0,
        allocated_bytes=needs.unlimited.in_use,
        reserved_bytes=needs.unlimited.reserved,
        kernels_bytes=line.kernels,
        kept_output_bytes=kept if kept > KEPT_SHARE * line.peak else 0,
        not_counted=[NotCounted(what=what, bytes=most) for what, most in not_counted(events, macos)],
        fit=fitting[0] if len(fitting) == 1 else None,
        fits=[*fitting] if len(fitting) > 1 else [],
        allocations=_allocations(line.changes, allocator_of(release, Limits())) if detailed else None,
    )


def _sizes(storages: Iterable[Storage], of: Callable[[Storage], str | None]) -> dict[str, int]:
    """Bytes by the name that ``of`` gives a storage, the most first; those without one are left out."""
    sizes: Counter[str] = Counter()
    for storage in storages:
        if (name := of(storage)) is not None:
            sizes[name] += storage.nbytes
    return dict(sizes.most_common())


def _holders(alive: Iterable[Storage]) -> list[MemoryHolder]:
    """By what they are for; of what calls make, also by the operator and the line."""
    groups: dict[tuple[str, str | None, str | None, int], list[Storage]] = defaultdict(list)
    for storage in alive:
        made = storage.call if storage.category in MADE_BY_CALLS else None
        groups[storage.category, *((made.operator, made.file, made.line) if made else (None, None, 0))].append(storage)
    holders = [
        MemoryHolder(
            category=category,
            bytes=sum(storage.nbytes for storage in some),
            storages=len(some),
            operator=operator,
            modules=[*_sizes(some, attrgetter("inside"))] if operator else [],
            call_site=None if file is None else site(file, line),
        )
        for (category, operator, file, line), some in groups.items()
    ]
    return sorted(holders, key=lambda holder: -holder.bytes)[:MOST_HOLDERS]


def _allocations(changes: Sequence[Change], allocator: Allocator) -> AllocationList:
    """Every storage, but those of no bytes, with its place in the heaps of ``allocator``."""
    changes = [change for change in changes if change.storage.nbytes]
    places: list[Place] = []
    replay(changes, allocator, places)
    ends = {id(change.storage): number for number, change in enumerate(changes) if not change.begins}
    begins = [(number, change.storage) for number, change in enumerate(changes) if change.begins]
    calls: dict[AllocatingCall, int] = {}
    storages = [
        Allocation(
            bytes=storage.nbytes,
            category=storage.category,
            begins=number,
            ends=ends.get(id(storage)),
            phase=storage.phase,
            call=None if storage.call is None else calls.setdefault(_call(storage.call), len(calls)),
            module=storage.module,
            **place._asdict(),
        )
        for (number, storage), place in zip(begins, places, strict=True)
    ]
    return AllocationList(storages=storages, calls=[*calls], segments=allocator.segments)


def _call(call: Made) -> AllocatingCall:
    line = None if call.file is None else site(call.file, call.line)
    return AllocatingCall(operator=call.operator, module=call.module, call_site=line)
