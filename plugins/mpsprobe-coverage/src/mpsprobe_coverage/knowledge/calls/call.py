"""One operator call, as judges and advisories see it, and as Python writes it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from mpsprobe_coverage.knowledge.calls.spec import Specs, TensorSpec, spec_of


@dataclass(frozen=True, slots=True)
class Call:
    """An operator with its arguments, of whose tensors only the specs are asked."""

    func: Any  # the overload of the installed torch
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    inputs: Specs  # of its tensor arguments (those in lists too), in order
    outputs: Specs
    generator: bool = False  # one of the arguments is a random generator of the backend
    cpu_generator: bool = False
    raised: str | None = None  # what its composite kernel raised for sparse arguments, if it did

    def argument(self, name: str) -> Any:
        """The argument that the schema calls ``name``, its default where the call leaves it out."""
        if name in self.kwargs:
            return self.kwargs[name]
        for position, argument in enumerate(self.func._schema.arguments):
            if argument.name == name:
                return self.args[position] if position < len(self.args) else argument.default_value
        raise KeyError(name)

    def spec(self, name: str) -> TensorSpec | None:
        """The spec of the tensor argument ``name``; None where the call has none."""
        value = self.argument(name)
        return spec_of(value) if isinstance(value, torch.Tensor) else None


Calls = Mapping[tuple[Any, str | None], Sequence[Call]]
"""Overload, and the dispatch key of its arguments where those are sparse → calls of it."""


LONGEST_EXAMPLE = 600  # characters: a call with hundreds of tensors (`_foreach_add_`) shows no more than a short one


def example(call: Call) -> str | None:
    """A call that the author of a kernel can make again: values are left out, all else stays.

    ``torch.ops.aten.linalg_qr.default(tensor((4, 3), (3, 1), torch.float32), 'reduced')``:
    ``tensor(shape, strides, dtype)`` stands for a tensor (with ``layout=`` where it is not strided), ``device`` for
    the device. ``None`` for a call with something that cannot be written so, or whose text is too long.
    """
    try:
        arguments = [_written(value) for value in call.args]
        arguments += [f"{name}={_written(value)}" for name, value in call.kwargs.items()]
    except TypeError:
        return None
    text = f"torch.ops.{call.func}({', '.join(arguments)})"
    return text if len(text) <= LONGEST_EXAMPLE else None


def _written(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        spec = spec_of(value)
        layout = "" if spec.layout is torch.strided else f", layout={spec.layout}"
        return f"tensor({spec.shape}, {spec.stride}, {spec.dtype}{layout})"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_written, value))}]"
    if isinstance(value, Mapping):
        raise TypeError("no operator of ATen takes a mapping")
    if isinstance(value, torch.device):
        return "device"
    if isinstance(value, float) and not math.isfinite(value):
        return f"float('{value}')"
    if isinstance(value, torch.Generator):
        return "None"
    if value is None or isinstance(value, (bool, int, float, complex, str)):
        return repr(value)
    if isinstance(value, (torch.dtype, torch.layout, torch.memory_format)):
        return str(value)
    raise TypeError(f"{type(value).__name__} cannot be written")
