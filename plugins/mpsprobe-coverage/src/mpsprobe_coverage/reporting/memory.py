"""What a run on the virtual device holds in memory: which storages are the model's, and the section of the report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from mpsprobe.schemas import AllocationList, MemoryFit, MemoryHolder, MemoryPoint, MemoryPrediction, NotCounted
from mpsprobe.stepping import TorchStep
from mpsprobe_coverage.devices.virtual import VirtualDevice
from mpsprobe_coverage.devices.virtual.tensor import VirtualTensor
from mpsprobe_coverage.knowledge.calls.spec import tensors_in
from mpsprobe_coverage.knowledge.chips.mac import Mac
from mpsprobe_coverage.knowledge.memory.allocator import Figures, replay
from mpsprobe_coverage.knowledge.memory.inside import not_counted
from mpsprobe_coverage.knowledge.memory.lifetimes import (
    BUFFERS,
    CACHE,
    GRADIENTS,
    INPUTS,
    OPTIMIZER,
    PARAMETERS,
    Event,
    Held,
    Phase,
    label,
)
from mpsprobe_coverage.knowledge.memory.mps_allocator import Limits, allocator_of, watermarks
from mpsprobe_coverage.knowledge.memory.timeline import Change, Timeline, timeline
from mpsprobe_coverage.reporting.allocations import allocation_list
from mpsprobe_coverage.reporting.findings import site
from mpsprobe_coverage.reporting.fitting import Needs, fit_on

MOST_HOLDERS = 12
MOST_MODULES = 24
DEEP = 4  # of lists and objects in which a cache keeps its tensors
Labelled = tuple[Held | None, str | None]


def label_model(model: torch.nn.Module) -> None:
    """Say which storages are parameters, and which are buffers."""
    for category, named in ((PARAMETERS, model.named_parameters()), (BUFFERS, model.named_buffers())):
        label(((held, name.rpartition(".")[0]) for name, one in named for held in _held(one)), category)


def label_inputs(*values: Any) -> None:
    """Say which are inputs."""
    label(_anonymous(tensors_in(values)), INPUTS)


@contextmanager
def labelling(device: VirtualDevice, step: TorchStep, phase: str) -> Iterator[None]:
    """A phase of ``step``, recorded; what are gradients and what the optimizer keeps is said where they are known."""
    parameters = [(name.rpartition(".")[0], one) for name, one in step.run.model.named_parameters()]
    if phase == "optimizer":
        label(((held, name) for name, one in parameters for held in _held(one.grad)), GRADIENTS)
    with device.recording(phase):
        yield
    if phase == "optimizer":
        state = getattr(step.optimizer, "state", {})
        owners = {id(one): name for name, one in parameters}
        label(
            (
                (held, owners.get(id(parameter)))
                for parameter, kept in state.items()
                for one in _tensors(kept)
                for held in _held(one)
            ),
            OPTIMIZER,
        )


def label_cache(*values: Any) -> None:
    """Say which storages ``values``, a cache or an output that has one, keep for the next token."""
    for value in values:
        label(_anonymous(_tensors(value)), CACHE)


def _anonymous(tensors: Iterable[torch.Tensor]) -> Iterator[Labelled]:
    return ((held, None) for one in tensors for held in _held(one))


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
        for one in list(value.values()):
            yield from _tensors(one, deep - 1)
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from _tensors(one, deep - 1)
    elif hasattr(value, "__dict__"):
        yield from _tensors(vars(value), deep)


def figures(changes: Iterable[Change], release: str, limits: Limits | None = None) -> Figures:
    """What the allocator of ``release`` makes of a run on a device with ``limits``.

    Raises:
        UsageError: PyTorch's variables for the watermarks hold what it refuses.
    """
    if limits is None:
        limits = Limits(None, None, *watermarks())
    return replay(changes, allocator_of(release, limits))


def prediction(
    events: Sequence[Event], release: str, macos: str | None, mac: Mac | None = None, *, detailed: bool = False
) -> MemoryPrediction | None:
    """The section of the report; None where nothing was on the device.

    Args:
        macos: the version that is asked about; None for a new one.
        mac: the one on which it is to fit.
        detailed: with every allocation.
    """
    events = of_step(events)
    found = timeline(events)
    if not found.peak:
        return None
    allocated = figures(found.changes, release)
    fit = fit_on(mac, needs_of(found, allocated, release, events)) if mac else None
    allocations = allocation_list(found.changes, allocator_of(release, Limits())) if detailed else None
    return section(found, allocated, events, macos, fit, allocations)


def of_step(events: Sequence[Event]) -> Sequence[Event]:
    """``events`` without what Python deletes after the step."""
    ends = [number for number, event in enumerate(events) if type(event) is Phase]
    return events[: ends[-1] + 1] if ends else events


def needs_of(found: Timeline, allocated: Figures, release: str, events: Sequence[Event] = ()) -> Needs:
    """What has to fit; ``allocated`` is what the allocator of the release makes of it."""
    return Needs(release, found.changes, allocated, found.largest.nbytes if found.largest else 0, events)


def section(
    found: Timeline,
    allocated: Figures,
    events: Sequence[Event],
    macos: str | None,
    fit: MemoryFit | None = None,
    allocations: AllocationList | None = None,
) -> MemoryPrediction:
    """The section of the report on a run in which something was on the device."""
    return MemoryPrediction(
        peak_bytes=found.peak,
        phase=found.phase,
        by_category=dict(sorted(found.by_category.items(), key=lambda one: -one[1])),
        by_phase=found.by_phase,
        by_module=dict(sorted(found.by_module.items(), key=lambda one: -one[1])[:MOST_MODULES]),
        holders=_holders(found),
        curve=[MemoryPoint(phase=phase, bytes=height) for phase, height in found.curve],
        largest_bytes=found.largest.nbytes if found.largest else 0,
        allocated_bytes=allocated.in_use,
        reserved_bytes=allocated.reserved,
        kernels_bytes=found.kernels,
        not_counted=[NotCounted(what=what, bytes=most) for what, most in not_counted(events, macos)],
        allocations=allocations,
        fit=fit,
    )


def _holders(found: Timeline) -> list[MemoryHolder]:
    return [
        MemoryHolder(
            category=one.category,
            bytes=one.nbytes,
            storages=one.storages,
            operator=one.operator,
            modules=sorted(one.modules, key=lambda name: -one.modules[name]) if one.operator else [],
            call_site=None if one.file is None else site(one.file, one.line),
        )
        for one in found.holders[:MOST_HOLDERS]
    ]
