"""A call as Python writes it, so that the author of a kernel can make it again: values are left out, all else stays."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch

from mpsprobe_coverage.knowledge.calls.call import Call
from mpsprobe_coverage.knowledge.calls.spec import spec_of

LONGEST = 600  # characters: a call with hundreds of tensors (`_foreach_add_`) shows nothing that a short one does not


def example(call: Call) -> str | None:
    """``torch.ops.aten.linalg_qr.default(tensor((4, 3), (3, 1), torch.float32), 'reduced')``.

    ``tensor(shape, strides, dtype)`` stands for a tensor (with ``layout=`` where it is not strided), ``device`` for
    the device. ``None`` for a call with something that cannot be written so, or whose text is too long.
    """
    try:
        arguments = [_written(value) for value in call.args]
        arguments += [f"{name}={_written(value)}" for name, value in call.kwargs.items()]
    except TypeError:
        return None
    text = f"torch.ops.{call.func}({', '.join(arguments)})"
    return text if len(text) <= LONGEST else None


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
