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


def _turned(dims: int) -> Function:
    """A linear layer of a transposed input."""
    return _of(lambda x, weight: functional.linear(x.transpose(0, -2), weight), (2,) * (dims - 1) + (8,), (16, 8))


def _tokens(length: int) -> Function:
    return _of(lambda x, weight: functional.linear(x.transpose(0, 1), weight), (1, length, 256), (8, 256))


def _shapes(rows: int) -> tuple[tuple[int, ...], ...]:
    return (2, rows, 1), (2, rows, 3), (2, 3, 1)


def _beta_zero(value: float) -> Function:
    return lambda x: torch.addmm(x.new_full((3,), value), x.new_zeros(3, 3), x.new_zeros(3, 3), beta=0)


PAIRS = {
    "baddbmm-beta-zero": Pair("2.13.0", _added(NAN), _added(0.0)),
    "baddbmm-beta-zero-complex": Pair("2.14.0", _added(NAN, dtype=torch.complex64), _added(0.0, dtype=torch.complex64)),
    "addbmm-nothing-to-multiply": Pair("2.14.0", _added(NAN, 0, operator="addbmm"), _added(0.0, 0, operator="addbmm")),
    "mm-strided-output": Pair("2.0.1", _into(4), _into(0)),
    "linear-no-features": Pair("2.13.0", *(_of(functional.linear, (3, 4, size), (5, size)) for size in (0, 1))),
    "mm-square-macos-12": Pair("1.12.1", *(_of(torch.mm, (3, 3), (3, columns)) for columns in (3, 4))),
    "linear-five-dimensions": Pair("2.1.1", _turned(5), _turned(4)),
    "linear-large-stride": Pair("2.12.0", _tokens(32769), _tokens(32768)),
    "baddbmm-empty": Pair("2.13.0", *(_of(torch.baddbmm, *_shapes(rows)) for rows in (0, 2))),
    "mv-empty": Pair("2.4.1", *(_of(torch.mv, (rows, 9), (9,)) for rows in (0, 2))),
    "addmm-beta-zero": Pair("1.13.1", _beta_zero(NAN), _beta_zero(0.0)),
}
