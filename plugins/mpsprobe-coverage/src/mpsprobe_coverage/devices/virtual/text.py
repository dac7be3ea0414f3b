"""The text of a virtual tensor: that of a tensor on the device, with its values where they are known."""

from __future__ import annotations

from typing import Any

import torch
from torch._tensor_str import PRINT_OPTS, _add_suffixes, _tensor_str

_PREFIX = "tensor("
_UNTOLD = (torch.int64, torch.bool)  # dtypes that can be seen from the values


def as_text(tensor: Any, known: torch.Tensor | None, contents: str | None = None) -> str:
    """What ``repr`` of a tensor says, for one that C++ believes to be on ``meta``.

    Args:
        tensor: gives device, shape, dtype and what autograd knows.
        known: its values, None where they are not known: ``...`` stands for them then.
        contents: the text of the values, if the caller has one.
    """
    suffixes = [f"device='{tensor.device}'"]
    empty = tensor.numel() == 0
    if known is None or (empty and tensor.dim() != 1) or not (empty or PRINT_OPTS.edgeitems):
        suffixes.append(f"size={tuple(tensor.shape)}")
    default = torch.get_default_dtype()
    seen = (default, torch.cdouble if default is torch.double else torch.cfloat, *_UNTOLD)
    if tensor.dtype not in ((default,) if known is None or empty else seen):
        suffixes.append(f"dtype={tensor.dtype}")
    if contents is None:
        contents = "..." if known is None else "[]" if empty else _values(known)
    if tensor.grad_fn is not None:
        name = type(tensor.grad_fn).__name__
        suffixes.append(f"grad_fn=<{tensor.grad_fn.name().rsplit('::', 1)[-1] if name == 'CppFunction' else name}>")
    elif tensor.requires_grad:
        suffixes.append("requires_grad=True")
    text: str = _add_suffixes(_PREFIX + contents, suffixes, len(_PREFIX), force_newline=False)
    return f"Parameter containing:\n{text}" if isinstance(tensor, torch.nn.Parameter) else text


def _values(known: torch.Tensor) -> str:
    with torch.no_grad(), torch.utils._python_dispatch._disable_current_modes():
        text: str = _tensor_str(known.detach(), len(_PREFIX))
    return text
