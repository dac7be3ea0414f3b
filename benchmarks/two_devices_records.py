"""What one of the two devices records of a sample or a workload; ``two_devices.py`` compares."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import torch

from mpsprobe_coverage.calls.keys import overload_named
from mpsprobe_coverage.device import VirtualDevice
from mpsprobe_coverage.device.recorder import CallRecord, Recorder
from mpsprobe_coverage.judging.chain import Chain
from mpsprobe_coverage.kernels.backends import family_named

PYTHON, NATIVE = "python", "native"
MEMORY = frozenset({"aten::empty.memory_format", "aten::empty_strided", "aten::empty_permuted", "aten::resize_"})
"""What makes memory; every release has it, and how often it is called is another question."""
ALIASES = frozenset({"aten::as_strided", "aten::_reshape_alias", "aten::view", "aten::_unsafe_view", "aten::detach"})


class Device(Protocol):
    """What both devices can do for a comparison."""

    chain: Chain

    def on(self, value: Any) -> Any:
        """A tensor of the CPU on the device."""

    @contextmanager
    def seen(self, phase: str, into: dict[str, Any]) -> Iterator[None]:
        """Put what is called inside into ``into[phase]``."""


class InPython:
    """The device in Python."""

    def __init__(self, chain: Chain, exits: ExitStack) -> None:
        self.chain = chain
        self._device = exits.enter_context(VirtualDevice(chain, shadow_limit=2**20))

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
                for kept in (recorder._calls, recorder._assumed, recorder._unjudged, recorder._advised):
                    kept.clear()


class Native:
    """The native device."""

    def __init__(self, chain: Chain, exits: ExitStack) -> None:
        from mpsprobe_programs.native.device import NativeDevice

        self.chain = chain
        self._device = exits.enter_context(NativeDevice(chain, lines=False))

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


def record_samples(kind: str, release: str, work: Sequence[tuple[str, str]], path: Path) -> None:
    """Each entry with its dtype → a line of JSON: for each sample and phase what was called, and what was raised."""
    from mpsprobe_tables.audit.entries import GRADIENT_DTYPES, entries, entry_named
    from mpsprobe_tables.audit.quiet import undisturbed

    torch.set_num_threads(1)
    with ExitStack() as exits, path.open("a", encoding="utf-8") as file:
        device = opened(kind, release, exits)  # before anything asks torch whether there is MPS: it asks only once
        entries()
        exits.enter_context(undisturbed())
        for key, dtype in work:
            found = _samples(device, entry_named(key), dtype, dtype in GRADIENT_DTYPES)
            file.write(json.dumps([f"{key} {dtype}", found]) + "\n")
            file.flush()


def _samples(device: Device, entry: Any, dtype: str, gradient: bool) -> dict[str, Any]:
    from mpsprobe_tables.audit.procedure import backward, forward, message
    from mpsprobe_tables.audit.running import _distinct
    from mpsprobe_tables.audit.samples import draw, is_for_mps

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
            sample = drawn[number].transform(lambda value: device.on(value) if is_for_mps(value) else value)
            with device.seen("forward", called):
                output = forward(entry, sample)
            compute = backward(entry, sample, output, torch.ones_like) if gradient else None
            if compute is not None:
                with device.seen("backward", called):
                    compute()
        except Exception as error:  # noqa: BLE001 - whatever it raises is compared
            called["raised"] = message(error)
    return found
