"""What one of the two devices records of a sample or a workload; ``two_devices.py`` compares."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import torch
from torch.utils._pytree import tree_map

from mpsprobe.protocols import RunOptions
from mpsprobe_coverage.devices.virtual import VirtualDevice
from mpsprobe_coverage.knowledge.calls.keys import overload_named
from mpsprobe_coverage.knowledge.judging.chain import Chain
from mpsprobe_coverage.knowledge.kernels.backends import family_named
from mpsprobe_coverage.recording.recorder import CallRecord, Recorder

PYTHON, NATIVE = "python", "native"
ASSUMED = "assumed"  # whether the device in Python read a value that it does not know
MEMORY = frozenset({"aten::empty.memory_format", "aten::empty_strided", "aten::empty_permuted", "aten::resize_"})
"""What makes memory; every release has it, and how often it is called is another question."""
ALIASES = frozenset({"aten::as_strided", "aten::_reshape_alias", "aten::view", "aten::_unsafe_view", "aten::detach"})


class Device(Protocol):
    """What both devices can do for a comparison."""

    chain: Chain

    def on(self, value: Any) -> Any:
        """A tensor of the CPU on the device."""

    def move(self, value: Any) -> Any:
        """A module, or tensors nested in lists and mappings, on the device."""

    @contextmanager
    def seen(self, phase: str, into: dict[str, Any]) -> Iterator[None]:
        """Put what is called inside into ``into[phase]``."""


class InPython:
    """The device in Python."""

    def __init__(self, chain: Chain, exits: ExitStack) -> None:
        self.chain = chain
        self._device = exits.enter_context(VirtualDevice(chain))
        self.move = self._device.move

    def on(self, value: Any) -> Any:
        self._device._wrapper._made.clear()  # samples come and go, and ids of tensors with them
        return self._device._wrapper.tensor(value)

    @contextmanager
    def seen(self, phase: str, into: dict[str, Any]) -> Iterator[None]:
        recorder = self._device.recorder
        with self._device.recording(phase):
            try:
                yield
            finally:
                self._device._interception.on_the_cpu.record_gradients()
                into[phase] = counted(recorder)
                into[ASSUMED] = bool(into.get(ASSUMED)) or any(recorder.assumptions())
                for kept in (recorder._calls, recorder._assumed, recorder._unjudged, recorder._advised):
                    kept.clear()


class Native:
    """The native device."""

    def __init__(self, chain: Chain, exits: ExitStack) -> None:
        from mpsprobe_coverage.devices.native.device import NativeDevice

        self.chain = chain
        self._device = exits.enter_context(NativeDevice(chain, lines=False))

    def move(self, value: Any) -> Any:
        if isinstance(value, torch.nn.Module):
            return value.to("mps")
        return tree_map(lambda leaf: leaf.to("mps") if isinstance(leaf, torch.Tensor) else leaf, value)

    def on(self, value: Any) -> Any:
        moved = value.detach().to("mps")
        return moved.requires_grad_(value.requires_grad)

    @contextmanager
    def seen(self, phase: str, into: dict[str, Any]) -> Iterator[None]:
        self._device.taken()
        try:
            yield
        finally:
            into[phase] = counted(self._device.taken())


DEVICES: dict[str, Callable[[Chain, ExitStack], Device]] = {PYTHON: InPython, NATIVE: Native}


def opened(kind: str, release: str, exits: ExitStack) -> Device:
    """The device, with the tables that ``mpsprobe coverage`` judges by."""
    table = family_named("mps").target(release)
    return DEVICES[kind](Chain(table, table.family.loaded_libraries(release)), exits)


def counted(recorder: Recorder) -> list[list[Any]]:
    """``[operator, verdict, reason, inputs, outputs, composed by]`` and the count, of all but memory and views."""
    found: Counter[tuple[Any, ...]] = Counter()
    for call in recorder.calls():
        if call.judgement.verdict == "native" and _is_memory(call.operator):
            continue
        found[_key(call)] += call.calls
    return [[list(key), count] for key, count in sorted(found.items(), key=str)]


def _key(call: CallRecord) -> tuple[Any, ...]:
    judgement, specs = call.judgement, [[_spec(spec) for spec in specs] for specs in (call.inputs, call.outputs)]
    return call.operator, judgement.verdict, judgement.reason, " ".join(specs[0]), " ".join(specs[1]), call.composed_by


def _spec(spec: Any) -> str:
    return f"{str(spec.dtype).removeprefix('torch.')}[{','.join(map(str, spec.shape))}]"


@cache
def _is_memory(operator: str) -> bool:
    if operator in MEMORY or operator in ALIASES:
        return True
    try:
        func = overload_named(operator)
    except AttributeError:
        return False
    return bool(func.is_view)


def record_samples(kind: str, release: str, work: Sequence[tuple[str, str, str]], path: Path) -> None:
    """Each entry, dtype and layout → a line of JSON: for each sample and phase what was called, and what was raised."""
    from mpsprobe_tables.audit.entries import GRADIENT_DTYPES, entries, entry_named
    from mpsprobe_tables.audit.procedure import undisturbed

    torch.set_num_threads(1)
    with ExitStack() as exits, path.open("a", encoding="utf-8") as file:
        device = opened(kind, release, exits)  # before anything asks torch whether there is MPS: it asks only once
        entries()
        exits.enter_context(undisturbed())
        for key, dtype, layout in work:
            found = _samples(device, entry_named(key), dtype, dtype in GRADIENT_DTYPES, layout)
            file.write(json.dumps([f"{key} {dtype} {layout}", found]) + "\n")
            file.flush()


def _channels_last(tensor: torch.Tensor) -> torch.Tensor:
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    return tensor.contiguous(memory_format=formats[tensor.dim()]) if tensor.dim() in formats else tensor


def _transposed(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.mT.contiguous().mT if tensor.dim() > 1 else tensor


def _expanded(tensor: torch.Tensor) -> torch.Tensor:
    """Its first row, as often as it had rows: these are other values."""
    return tensor[:1].expand(tensor.shape) if tensor.dim() and tensor.shape[0] > 1 else tensor


def _offset(tensor: torch.Tensor) -> torch.Tensor:
    return torch.cat([tensor[:1], tensor])[1:] if tensor.dim() and tensor.numel() else tensor


def _strided(tensor: torch.Tensor) -> torch.Tensor:
    """Every second element along the last dimension of a larger one."""
    return torch.stack([tensor, tensor], -1).flatten(-2)[..., ::2] if tensor.dim() and tensor.numel() else tensor


LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "as drawn": lambda tensor: tensor,
    "channels last": _channels_last,
    "transposed": _transposed,
    "expanded": _expanded,
    "offset": _offset,
    "strided": _strided,
}
"""How the floating-point tensors of a sample lie in memory; one that cannot lie so stays as it is."""


def _laid_out(value: torch.Tensor, layout: str, device: Device) -> torch.Tensor:
    """A view of what is moved, where the layout is one: a copy to the device would be packed."""
    if not value.is_floating_point() or value.layout is not torch.strided or layout == "as drawn":
        moved: torch.Tensor = device.on(value)
        return moved
    with torch.no_grad():
        placed = LAYOUTS[layout](device.on(value.detach()))
    return placed.requires_grad_(value.requires_grad)


def _samples(device: Device, entry: Any, dtype: str, gradient: bool, layout: str) -> dict[str, Any]:
    from mpsprobe_tables.audit.procedure import backward, draw, forward, is_for_mps, message
    from mpsprobe_tables.audit.running import _distinct

    try:
        drawn = draw(entry, dtype)
    except Exception:  # noqa: BLE001 - a sampler that needs the device itself
        return {}
    found: dict[str, Any] = {}
    for number in _distinct(drawn):
        called: dict[str, Any] = {}
        found[str(number)] = called
        try:
            torch.manual_seed(0)
            sample = drawn[number].transform(
                lambda value: _laid_out(value, layout, device) if is_for_mps(value) else value
            )
            with device.seen("forward", called):
                output = forward(entry, sample)
            compute = backward(entry, sample, output, torch.ones_like) if gradient else None
            if compute is not None:
                with device.seen("backward", called):
                    compute()
        except Exception as error:  # noqa: BLE001 - whatever it raises is compared
            called["raised"] = message(error)
    return found


LAYERS = re.compile(r"(?<!extract_)layers?$|^num_blocks$")
SMALLER = {"hidden_size": 96, "intermediate_size": 128, "num_attention_heads": 4, "num_key_value_heads": 2}
LARGE = 5e8  # parameters from which a model is made narrow too
WAVE = 8000  # samples of sound


def record_workloads(kind: str, release: str, work: Sequence[tuple[str, str]], path: Path) -> None:
    """A step of each workload in each phase, with two layers → a line of JSON, as ``record_samples``."""
    torch.set_num_threads(1)
    with ExitStack() as exits, path.open("a", encoding="utf-8") as file:
        device = opened(kind, release, exits)
        for name, phase in work:
            called: dict[str, Any] = {}
            try:
                _step(device, name, phase, called)
            except Exception as error:  # noqa: BLE001 - whatever it raises is compared
                called["raised"] = f"{type(error).__name__}: {str(error)[:200]}"
            file.write(json.dumps([f"{name} {phase}", {"step": called}]) + "\n")
            file.flush()


def _step(device: Device, name: str, phase: str, called: dict[str, Any]) -> None:
    from mpsprobe_coverage.scanning.step import ReleaseStep
    from mpsprobe_hf.transformers.workload import NamedWorkload

    torch.manual_seed(0)
    entry = _reduced(name, phase)
    wanted = entry.seq_len and min(entry.seq_len, 64 if entry.seq_len < WAVE else WAVE)
    length = wanted and max(entry.shortest or 1, wanted)
    options = RunOptions(phase=phase, batch_size=2, seq_len=length)
    run = NamedWorkload(entry).build(options)
    model, args, kwargs = device.move(run.model), device.move(run.args), device.move(dict(run.kwargs))
    step = ReleaseStep(replace(run, model=model, args=args, kwargs=kwargs), options, device.chain.table)
    step.take(lambda part: device.seen(part, called))


def _reduced(name: str, phase: str) -> Any:
    """The catalog's entry with two layers of each kind."""
    from mpsprobe_hf.catalog import entries
    from mpsprobe_hf.transformers.workload import load_classes

    entry = entries()[name]
    architecture = entry.architecture(phase)
    known = {**load_classes(entry, architecture)[0]().to_dict(), **entry.config}
    narrow = architecture.parameters > LARGE and entry.family == "text"  # parts of others have to fit each other
    return replace(entry, config={**entry.config, **_smaller(known, narrow)})


def _smaller(config: dict[str, Any], narrow: bool) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, dict) and key.endswith("config"):
            found[key] = {**value, **_smaller(value, narrow)}
        elif LAYERS.search(key) and isinstance(value, int) and not isinstance(value, bool):
            found[key] = min(value, 2)
        elif narrow and key in SMALLER and isinstance(value, int):
            found[key] = SMALLER[key]
    return found
