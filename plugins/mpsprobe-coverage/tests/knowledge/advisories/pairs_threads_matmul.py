"""Pairs of small models for the advisories of matrix products: see ``pairs.py``."""

from __future__ import annotations

import torch
from pairs import Function, Pair, _of
from torch.nn import functional


def _added(value: float, inner: int = 4, dtype: torch.dtype = torch.float32, operator: str = "baddbmm") -> Function:
    """``baddbmm`` or ``addbmm`` with beta=0 of an input that is full of ``value``."""

    def run(x: torch.Tensor) -> torch.Tensor:
        shape = (1, 1, 1) if operator == "baddbmm" else (1, 1)
        batches = x.new_zeros((2, 3, inner), dtype=dtype), x.new_zeros((2, inner, 3), dtype=dtype)
        return getattr(torch, operator)(x.new_full(shape, value, dtype=dtype), *batches, beta=0)

    return run


def _into(first: int) -> Function:
    """A product into some columns of a wider tensor, or into all of them."""
    return _of(
        lambda left, right, wide: torch.mm(left, right, out=wide[:, :4] if first else wide),
        (4, 4), (4, 4), (4, 4 + first),
    )  # fmt: skip


def _layer(weight: Function) -> Function:
    return lambda x: functional.linear(x.new_zeros(3, 4, 5), weight(x))


def _batch(expanded: bool) -> Function:
    def run(x: torch.Tensor) -> torch.Tensor:
        batch = x.new_zeros(1, 4, 5).expand(3, 4, 5)
        return functional.linear(batch if expanded else batch.contiguous(), x.new_zeros(6, 5))

    return run


NAN = float("nan")
PAIRS = {
    "baddbmm-beta-zero-complex": Pair("2.14.0", _added(NAN, dtype=torch.complex64), _added(0.0, dtype=torch.complex64)),
    "addbmm-nothing-to-multiply": Pair("2.14.0", _added(NAN, 0, operator="addbmm"), _added(0.0, 0, operator="addbmm")),
    "mm-strided-output": Pair("2.0.1", _into(4), _into(0)),
    "linear-no-features": Pair("2.13.0", *(_of(functional.linear, (3, 4, size), (5, size)) for size in (0, 1))),
}
