"""Tensors of classes that hold others: nested ones of jagged layout, quantized weights."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from expectations import called
from torch import nn

from mpsprobe_coverage.device import VirtualDevice
from mpsprobe_coverage.device.tensor import VirtualTensor


class _Quantized(torch.Tensor):
    """Whole numbers with a scale, as libraries for quantization make them."""

    @staticmethod
    def __new__(cls, values: torch.Tensor, scale: torch.Tensor) -> Any:
        return torch.Tensor._make_wrapper_subclass(cls, values.shape, dtype=scale.dtype, device=values.device)

    def __init__(self, values: torch.Tensor, scale: torch.Tensor) -> None:
        self.whole, self.scale = values, scale

    def __tensor_flatten__(self) -> Any:
        return ["whole", "scale"], None

    @staticmethod
    def __tensor_unflatten__(inner: Any, context: Any, size: Any, stride: Any) -> Any:
        return _Quantized(inner["whole"], inner["scale"])

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.detach.default:
            return cls(args[0].whole, args[0].scale)
        args = [a.whole.to(a.scale.dtype) * a.scale if isinstance(a, cls) else a for a in args]
        return func(*args, **kwargs or {})


@pytest.mark.parametrize("training", [False, True])
def test_a_parameter_that_holds_others_is_judged_by_what_it_calls(device: VirtualDevice, training: bool) -> None:
    layer = nn.Linear(4, 5)
    held = _Quantized(torch.ones(5, 4, dtype=torch.int8), torch.ones(5, 1))
    layer.weight = nn.Parameter(held, requires_grad=False)
    moved = device.move(layer)
    assert type(moved.weight) is _Quantized and isinstance(moved.weight, nn.Parameter)
    assert type(moved.weight.whole) is VirtualTensor
    x = torch.ones(3, 4, device="mps", requires_grad=training)
    with device.recording("forward"):
        made = moved(x)
    seen = called(device.recorder, "forward")
    assert (seen["native:aten::mul.Tensor"], seen["native:aten::linear"]) == (1, 1)
    if training:
        made.sum().backward()
        assert x.grad is not None and tuple(x.grad.shape) == (3, 4)


@pytest.mark.parametrize("made_there", [False, True])
def test_a_jagged_tensor_is_judged_by_the_operators_on_its_values(device: VirtualDevice, made_there: bool) -> None:
    rows = [torch.ones(3, 4), torch.ones(2, 4)]
    layer = device.move(nn.Linear(4, 5))
    if made_there:
        nested = torch.nested.nested_tensor(device.move(rows), layout=torch.jagged)
    else:
        nested = device.move(torch.nested.nested_tensor(rows, layout=torch.jagged))
    with device.recording("forward"):
        made = layer(nested * 2)
        padded = torch.nested.to_padded_tensor(made, 0.0)
    assert type(made.values()) is VirtualTensor and tuple(padded.shape) == (2, 3, 5)
    seen = called(device.recorder, "forward")
    assert (seen["native:aten::linear"], seen["missing:aten::_jagged_to_padded_dense_forward"]) == (1, 1)
    made.values().sum().backward()
    assert tuple(layer.weight.grad.shape) == (5, 4)
