"""Sample inputs as PyTorch's MPS tests draw them, computed on the CPU.

Samplers look at the device that they are given: for MPS they avoid float64, for example. So they are told ``mps:0``,
and a function mode makes each tensor on the CPU instead.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from mpsprobe_coverage.audit.entries import dtype_named

DEVICE = "mps:0"


class DrawnOnCpu(TorchFunctionMode):
    """While it is on, what asks for a tensor on MPS gets one on the CPU."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if _is_mps(kwargs.get("device")):
            kwargs = {**kwargs, "device": "cpu"}
        if getattr(func, "__name__", "") == "to":
            args = tuple("cpu" if _is_mps(argument) else argument for argument in args)
        return func(*args, **kwargs)


def _is_mps(value: Any) -> bool:
    return isinstance(value, str | torch.device) and str(value).partition(":")[0] == "mps"


def needs_gradient(dtype: str) -> bool:
    """PyTorch's tests draw samples that require a gradient wherever the dtype can have one."""
    kind = dtype_named(dtype)
    return kind.is_floating_point or kind.is_complex


def draw(entry: Any, dtype: str) -> list[Any]:
    """The samples of ``entry``: CPU tensors, the same in every process.

    Raises:
        Exception: whatever the sampler raises on the CPU.
    """
    with DrawnOnCpu(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return list(ask(entry, dtype))


def ask(entry: Any, dtype: str) -> Any:
    """What the sampler gives for MPS, wherever the functions that it calls compute it."""
    kind = dtype_named(dtype)
    conjugated = kind.is_complex and entry.test_conjugated_samples
    options = {"include_conjugated_inputs": True} if conjugated else {}
    return entry.sample_inputs(DEVICE, kind, requires_grad=needs_gradient(dtype), set_seed=True, **options)
