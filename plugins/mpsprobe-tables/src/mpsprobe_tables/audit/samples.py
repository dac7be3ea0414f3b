"""Sample inputs as PyTorch's MPS tests draw them, computed on the CPU.

Samplers look at the device that they are given: for MPS they avoid float64, for example. So they get ``mps:0``,
and a function mode makes each tensor on the CPU instead.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from mpsprobe_tables.audit.entries import dtype_named

DEVICE = "mps:0"


class DrawnOnCpu(TorchFunctionMode):
    """While it is on, what asks for a tensor on MPS gets one on the CPU, which ``is_for_mps`` knows again.

    What is made of such tensors would be on MPS as well; what names no device, or the CPU, would not.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        device = kwargs.get("device")
        if name == "to" and device is None:
            device = next((one for one in args[1:] if isinstance(one, str | torch.device)), None)
        elif name == "cpu":
            device = "cpu"
        if device is None:
            made = func(*args, **kwargs)
            for_mps = any(is_for_mps(one) for one in _leaves((args, kwargs)))
        else:
            for_mps = _is_mps(device)
            if for_mps:
                kwargs = {**kwargs, "device": "cpu"} if "device" in kwargs else kwargs
                args = tuple("cpu" if _is_mps(argument) else argument for argument in args)
            made = func(*args, **kwargs)
        if for_mps:
            for one in _leaves(made):
                if isinstance(one, torch.Tensor):
                    one._is_for_mps = True  # type: ignore[attr-defined]
        return made


def is_for_mps(value: Any) -> bool:
    """Whether ``value`` is a tensor that was asked for on MPS."""
    return isinstance(value, torch.Tensor) and getattr(value, "_is_for_mps", False)


def _is_mps(value: Any) -> bool:
    return isinstance(value, str | torch.device) and str(value).partition(":")[0] == "mps"


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, (list, tuple)):
        return [leaf for inner in value for leaf in _leaves(inner)]
    return [leaf for inner in value.values() for leaf in _leaves(inner)] if isinstance(value, dict) else [value]


def needs_gradient(dtype: str) -> bool:
    """PyTorch's tests draw samples that require a gradient wherever the dtype can have one."""
    kind = dtype_named(dtype)
    return kind.is_floating_point or kind.is_complex


def draw(entry: Any, dtype: str, *, gradients: bool = True) -> list[Any]:
    """The samples of ``entry``: CPU tensors, the same in every process.

    Args:
        gradients: ask for tensors that require a gradient, where the dtype can have one.

    Raises:
        Exception: whatever the sampler raises on the CPU.
    """
    with DrawnOnCpu(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return list(ask(entry, dtype, gradients=gradients))


def ask(entry: Any, dtype: str, *, gradients: bool = True) -> Any:
    """What the sampler gives for MPS, wherever the functions that it calls compute it."""
    kind = dtype_named(dtype)
    conjugated = kind.is_complex and entry.test_conjugated_samples
    options = {"include_conjugated_inputs": True} if conjugated else {}
    return entry.sample_inputs(
        DEVICE, kind, requires_grad=gradients and needs_gradient(dtype), set_seed=True, **options
    )
