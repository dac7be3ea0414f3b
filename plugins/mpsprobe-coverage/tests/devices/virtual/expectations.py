"""How an expectation about the virtual device is written, and how it is compared with what happens.

An expectation is text: operators without ``aten::``, each with ``*N`` for N calls and ``verdict:`` before it where it
is not native. Behind ``|`` stands what the backward pass calls; without one the case runs under ``no_grad``.
``{"1.12.1": …, "2.0.0": …}`` holds from the named release up to the next one named; a text alone, in every release.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from packaging.version import Version

from mpsprobe_coverage.devices.virtual import VirtualDevice
from mpsprobe_coverage.recording.recorder import Recorder

TORCH_2_6 = torch.__version__.startswith("2.6.")
"""Whether the oldest torch that may trace does: what it cannot do is said where it is tested."""
EVERY = "1.12.1"  # the oldest that is looked at: what begins with it holds in every release
RELEASES = (EVERY, "1.13.1", "2.0.0", "2.4.1", "2.6.0", "2.13.0", "2.15.0")

# Memory and views: native in every release, and which of them is called depends on strides and on the minor release
# of the torch that traces (`reshape` ends in `_reshape_alias` or in `view`). Checked to be native, not counted.
_FREE = """
    empty.memory_format empty_strided new_empty_strided set_.source_Storage copy_ fill_.Scalar zero_ resize_
    view as_strided _reshape_alias _unsafe_view permute unfold view_as_real view_as_complex
"""
FREE = frozenset(f"aten::{name}" for name in _FREE.split())
# Where ATen sees a Python tensor (`areAnyTensorSubclassLike`, the accumulation of gradients) it does not write in
# place. Both forms are native from 1.12 on.
SAME = {"aten::add_.Tensor": "aten::add.Tensor", "aten::scatter_add_": "aten::scatter_add"}


@dataclass(frozen=True)
class Program:
    """A few lines of torch, CPU tensors for them, and a module where there is one; see ``of``."""

    run: Callable[..., Any]
    inputs: Callable[[], Sequence[torch.Tensor]]
    module: Callable[[], torch.nn.Module] | None = None


def of(run: Callable[..., Any], *inputs: Any, module: Callable[[], torch.nn.Module] | None = None) -> Program:
    """``run`` of inputs on the device: shapes of float32 tensors, or one function that makes CPU tensors."""
    made = inputs[0] if callable(inputs[0]) else lambda: [torch.rand(shape) for shape in inputs]
    return Program(run, made, module)


@dataclass(frozen=True)
class Case:
    """A program, and what a Mac makes of it; its key in a file is the name, a colon, and where the expectation is from.

    With ``as_traced`` a release that is newer than the torch that traces is seen as that torch's own.
    """

    program: Program
    expected: Mapping[str, str] | str
    as_traced: bool = False

    def text_for(self, release: str) -> str | None:
        """The expectation for ``release``; None before the first one."""
        if isinstance(self.expected, str):
            return self.expected
        seen = Version(release)
        if self.as_traced:
            seen = min(seen, Version(torch.version.__version__))  # on a device, the other answers for its release
        return next((text for since, text in reversed(self.expected.items()) if Version(since) <= seen), None)


def parsed(text: str) -> tuple[Counter[str], Counter[str] | None]:
    """Calls of the forward and the backward pass, as ``verdict:aten::operator``; None without a backward pass."""
    halves = [_counted(half) for half in text.split("|")]
    return halves[0], halves[1] if len(halves) == 2 else None


def observed(device: VirtualDevice, text: str, case: Case, backward: bool) -> tuple[Counter[str], Counter[str] | None]:
    """What ``device`` records for the case ``text``, in the form of ``parsed``."""
    program, there, back = case.program, f"{text} forward", f"{text} backward"
    modules = () if program.module is None else (device.move(program.module()),)
    tensors = [device.move(tensor) for tensor in program.inputs()]
    leaves = [parameter for module in modules for parameter in module.parameters()]
    if backward:
        leaves += [t.requires_grad_() for t in tensors if t.is_floating_point()]
    with device.recording(there), torch.set_grad_enabled(backward):
        output = program.run(*modules, *tensors)
    if not backward:
        return called(device.recorder, there), None
    cotangent = torch.ones_like(output)
    with device.recording(back):
        torch.autograd.grad(output, leaves, cotangent, allow_unused=True)
    return called(device.recorder, there), called(device.recorder, back)


def called(recorder: Recorder, phase: str) -> Counter[str]:
    """The calls of one phase, without memory and views, which are checked to be native."""
    counts: Counter[str] = Counter()
    for record in recorder.calls():
        if record.phase != phase:
            continue
        if record.operator in FREE and record.judgement.verdict == "native":
            continue
        counts[f"{record.judgement.verdict}:{SAME.get(record.operator, record.operator)}"] += record.calls
    return counts


def in_backward(device: VirtualDevice, loss: torch.Tensor, **options: Any) -> Counter[str]:
    """The calls of all backward passes so far, after one more."""
    with device.recording("backward"):
        loss.backward(**options)
    return called(device.recorder, "backward")


def _counted(text: str) -> Counter[str]:
    counts: Counter[str] = Counter()
    for word in text.split():
        name, _, count = word.partition("*")
        verdict, _, operator = name.rpartition(":")
        counts[f"{verdict or 'native'}:aten::{operator}"] += int(count or 1)
    return counts
