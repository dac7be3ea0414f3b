"""What is known of a tensor without its data: shape, strides, dtype and layout."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from math import prod
from typing import Any

import torch

from mpsprobe_coverage.knowledge.calls import sparse

META, CPU = torch.device("meta"), torch.device("cpu")
MOST_EXPANDED = 2**26  # elements, such as those of 16,384 tokens with 4,096 features
FLOAT_SHADOW_COST = 64
_empty_strided = torch.empty_strided


_STORED_AS = {
    torch.quint8: torch.uint8, torch.qint8: torch.int8, torch.qint32: torch.int32,
    torch.quint4x2: torch.uint8, torch.quint2x4: torch.uint8,
}  # fmt: skip
"""Quantized dtypes → what a tensor without a scale has in their place."""


class TensorSpec:
    """Shape, strides, dtype and layout of a tensor. Interned by ``spec_of``: compare with ``is``.

    A sparse one has the strides that a contiguous dense one has, and a ``form`` (``sparse.py``). ``stored`` counts the
    elements that are held, ``nbytes`` their bytes (without sparse indices), ``held`` those of a storage for it.
    """

    __slots__ = ("dtype", "form", "held", "layout", "nbytes", "numel", "shadow_cost", "shape", "stored", "stride")

    def __init__(
        self,
        shape: tuple[int, ...],
        stride: tuple[int, ...],
        dtype: torch.dtype,
        layout: torch.layout = torch.strided,
        form: sparse.Form = (),
    ) -> None:
        self.shape, self.stride, self.dtype, self.layout, self.form = shape, stride, dtype, layout, form
        self.numel = 1
        for size in shape:
            self.numel *= size
        self.stored = self.numel if layout is torch.strided else sparse.stored(shape, layout, form)
        self.nbytes = self.held = self.stored * dtype.itemsize
        if self.numel and layout is torch.strided:
            self.held = dtype.itemsize * (1 + sum((size - 1) * step for size, step in zip(shape, stride, strict=True)))
        # Control flow reads indices, lengths and masks; of floating-point tensors hardly more than single numbers.
        exact = not (dtype.is_floating_point or dtype.is_complex)
        # An expanded dimension takes no memory: a mask of tokens, seen as one of all features, stays known. What is
        # computed from it takes time for each element all the same.
        held = self.numel
        if stride and held <= MOST_EXPANDED:
            held = prod(size for size, step in zip(shape, stride, strict=True) if step or not size)
        self.shadow_cost = held if exact else held * FLOAT_SHADOW_COST

    def empty(self) -> torch.Tensor:
        """A fresh meta tensor of this spec."""
        if self.layout is not torch.strided:
            return sparse.empty(self.shape, self.dtype, self.layout, self.form, META)
        return _empty_strided(self.shape, self.stride, dtype=_STORED_AS.get(self.dtype, self.dtype), device=META)

    def filled(self, value: int) -> torch.Tensor:
        """A real tensor with ``value`` everywhere; a sparse one with zeros."""
        if self.layout is not torch.strided:
            return sparse.empty(self.shape, self.dtype, self.layout, self.form, CPU)
        return _empty_strided(self.shape, self.stride, dtype=self.dtype, device=CPU).fill_(value)

    def __repr__(self) -> str:
        layout = "" if self.layout is torch.strided else f", {str(self.layout).removeprefix('torch.')}"
        return f"{dtype_name(self.dtype)}{list(self.shape)}{layout}"


Specs = tuple[TensorSpec, ...]
_interned: dict[tuple[Any, ...], TensorSpec] = {}


def interned(*facts: Any) -> TensorSpec:
    """The one spec object for what ``TensorSpec`` takes: shape, stride, dtype; for sparse ones layout and form."""
    spec = _interned.get(facts)
    if spec is None:
        spec = _interned[facts] = TensorSpec(*facts)
    return spec


def spec_of(tensor: torch.Tensor) -> TensorSpec:
    """The spec of any tensor; a virtual one has it as ``spec``."""
    own = getattr(tensor, "spec", None)
    if type(own) is TensorSpec:
        return own
    shape = tuple(tensor.shape)
    if tensor.layout is torch.strided:
        return interned(shape, tensor.stride(), tensor.dtype)
    stride, step = [], 1
    for size in reversed(shape):
        stride.append(step)
        step *= max(size, 1)
    return interned(shape, tuple(reversed(stride)), tensor.dtype, tensor.layout, sparse.form_of(tensor))


@functools.cache
def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def is_contiguous(spec: TensorSpec) -> bool:
    """As ``Tensor.is_contiguous()``: rows follow each other; dimensions of size 1 do not matter."""
    return is_packed_along(spec, range(len(spec.shape) - 1, -1, -1))


def is_channels_last(spec: TensorSpec) -> bool:
    """Whether it has two dimensions of space and its channels innermost, and is not contiguous as well."""
    return len(spec.shape) == 4 and is_packed_along(spec, (1, 3, 2, 0)) and not is_contiguous(spec)


def is_packed_along(spec: TensorSpec, innermost_first: Iterable[int]) -> bool:
    """Whether the elements fill their memory without holes and overlaps, in that order of the dimensions."""
    expected = 1
    for dim in innermost_first:
        size = spec.shape[dim]
        if size == 0:
            return True
        if size != 1 and spec.stride[dim] != expected:
            return False
        expected *= size
    return True


def has_no_data(tensor: Any) -> bool:
    """Whether it is a virtual tensor: no other has a spec of its own."""
    return type(getattr(tensor, "spec", None)) is TensorSpec


def leaves(values: Any) -> list[Any]:
    """What is in the tuples, lists and dicts of ``values``, in order; faster than PyTorch's ``tree_leaves``."""
    if isinstance(values, dict):
        return leaves(list(values.values()))
    if isinstance(values, (tuple, list)):
        return [leaf for item in values for leaf in leaves(item)]
    return [values]


def tensors_in(values: Any) -> list[torch.Tensor]:
    return [leaf for leaf in leaves(values) if isinstance(leaf, torch.Tensor)]


def specs_in(values: Any) -> Specs:
    return tuple(map(spec_of, tensors_in(values)))
