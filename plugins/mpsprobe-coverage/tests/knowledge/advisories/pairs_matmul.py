"""Pairs of ``matmul.toml``; see ``pairs.py``."""

from __future__ import annotations

import math
from typing import Any

import torch
from pairs import Function, Pair, _of
from torch.nn import functional


def _scores(held: float) -> Function:
    """The scores of sliced attention, with an input full of ``held`` that is to be ignored."""

    def run(x: torch.Tensor) -> torch.Tensor:
        query = x.new_zeros(2, 3, 4)
        return torch.baddbmm(torch.full((2, 3, 3), held, device=x.device), query, query.mT, beta=0, alpha=0.5)

    return run


def _mixed(function: Function, dtype: torch.dtype) -> Function:
    """A product with a matrix of ``dtype``."""
    return lambda x: function(x.new_zeros(2, 2), x.new_zeros(2, 2, dtype=dtype))


def _added(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    return torch.addmm(left, left, right)


def _products(batch: int) -> Function:
    return lambda x: torch.bmm(x.new_zeros(batch, 2**14, 1), x.new_zeros(batch, 1, 2**14))


def _complex(inner: int) -> Function:
    return lambda x: torch.mm(*(x.new_zeros(shape, dtype=torch.complex64) for shape in ((4, inner), (inner, 4))))


def _expanded(batch: int) -> Function:
    return lambda x: functional.linear(x.new_zeros(1, 9, 8).expand(batch, 9, 8), x.new_zeros(4, 8), x.new_zeros(4))


def _image(*order: int) -> Function:
    """A linear layer over an image, whose output is permuted before the loss."""

    def run(x: torch.Tensor) -> Any:
        made = functional.linear(x.new_zeros(2, 8, 3, 4) + x.sum(), x.new_zeros(4, 4) + x.sum())
        return made.permute(order).contiguous() ** 2

    return run


def _ignored(value: float, inner: int = 4, dtype: torch.dtype = torch.float32, operator: str = "baddbmm") -> Function:
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


def _tokens(length: int) -> Function:
    return _of(lambda x, weight: functional.linear(x.transpose(0, 1), weight), (1, length, 256), (8, 256))


def _shapes(rows: int) -> tuple[tuple[int, ...], ...]:
    return (2, rows, 1), (2, rows, 3), (2, 3, 1)


def _beta_zero(value: float) -> Function:
    return lambda x: torch.addmm(x.new_full((3,), value), x.new_zeros(3, 3), x.new_zeros(3, 3), beta=0)


def _outer(rows: int) -> Function:
    return lambda x: torch.mm(x.new_zeros(rows, 1), x.new_zeros(1, 32769))


def _vector(*shape: int) -> Function:
    """A linear layer whose weight has that shape, with gradients."""
    return lambda x: functional.linear(x.sum() + x.new_zeros(5, 33), x.sum() + x.new_zeros(shape))


def _conjugated(product: Function, changed: Function) -> Function:
    """A product with numbers that are ``changed`` by a function that conjugates them."""
    shape = (2, 2) if product is torch.mm else (1, 2, 2)
    return _of(lambda left, right: product(left, changed(right)), shape, shape, dtype=torch.complex64)


def _turned(dtype: torch.dtype) -> Function:
    """A linear layer whose weight is transposed."""
    return _of(lambda x, weight: functional.linear(x, weight.T), (2, 3, 4), (4, 5), dtype=dtype)


def _deep(size: int) -> Function:
    """A linear layer over five dimensions, of which one is 1 and another has that size, with gradients."""
    return lambda x: functional.linear(x.sum() + x.new_zeros(2, 1, 2, size, 2), x.sum() + x.new_zeros(4, 2))


PAIRS = {
    "baddbmm-beta-zero": Pair("2.13.0", _scores(math.nan), _scores(0.0)),
    "mm-two-dtypes-ends": Pair("2.6.0", *(_mixed(torch.mm, dtype) for dtype in (torch.float16, torch.float32))),
    "mm-two-dtypes": Pair("2.7.0", *(_mixed(torch.mm, dtype) for dtype in (torch.float16, torch.float32))),
    "addmm-two-dtypes": Pair("2.13.0", *(_mixed(_added, dtype) for dtype in (torch.float16, torch.float32))),
    "bmm-many-elements-ends": Pair("2.4.1", _products(17), _products(16)),
    "matmul-complex-long": Pair("2.9.1", _complex(3000), _complex(100)),
    "linear-strided-weight": Pair(
        "2.8.0",
        lambda x: functional.linear(x.new_zeros(2, 8), x.new_zeros(12, 8)[::2]),
        lambda x: functional.linear(x.new_zeros(2, 8), x.new_zeros(12, 8)[:6]),
    ),
    "linear-expanded-input": Pair("2.8.0", _expanded(5), _expanded(1)),
    "linear-backward-channels-last": Pair("2.11.0", _image(0, 2, 3, 1), _image(0, 1, 2, 3), "training"),
    "bmm-large-dimension": Pair(
        "2.1.0",
        lambda x: torch.bmm(x.new_zeros(911, 9, 1), x.new_zeros(911, 1, 32769)),
        lambda x: torch.bmm(x.new_zeros(910, 9, 1), x.new_zeros(910, 1, 32769)),
    ),
    "linear-large-output": Pair(
        "2.2.1",
        lambda x: functional.linear(x.new_zeros(9, 4, 1), x.new_zeros(50304, 1)),
        lambda x: functional.linear(x.new_zeros(9, 4, 2), x.new_zeros(50304, 2)),
    ),
    "linear-large-output-matrix": Pair(
        "2.1.2", *(_of(functional.linear, (rows, 1), (32769, 1)) for rows in (1025, 1024))
    ),
    "baddbmm-beta-zero-complex": Pair(
        "2.14.0", _ignored(NAN, dtype=torch.complex64), _ignored(0.0, dtype=torch.complex64)
    ),
    "addbmm-nothing-to-multiply": Pair(
        "2.14.0", _ignored(NAN, 0, operator="addbmm"), _ignored(0.0, 0, operator="addbmm")
    ),
    "mm-strided-output": Pair("2.0.1", _into(4), _into(0)),
    "linear-no-features": Pair("2.13.0", *(_of(functional.linear, (3, 4, size), (5, size)) for size in (0, 1))),
    "mm-square-macos-12": Pair("1.12.1", *(_of(torch.mm, (3, 3), (3, columns)) for columns in (3, 4))),
    "linear-large-stride": Pair("2.12.0", _tokens(32769), _tokens(32768)),
    "baddbmm-empty": Pair("2.13.0", *(_of(torch.baddbmm, *_shapes(rows)) for rows in (0, 2))),
    "mv-empty": Pair("2.4.1", *(_of(torch.mv, (rows, 9), (9,)) for rows in (0, 2))),
    "addmm-beta-zero": Pair("1.13.1", _beta_zero(NAN), _beta_zero(0.0)),
    "baddbmm-bool": Pair(
        "2.13.0",
        *(_of(torch.baddbmm, *[(2, 3, 3)] * 3, dtype=dtype) for dtype in (torch.bool, torch.int32)),
    ),
    "mm-outer-many-elements": Pair("2.1.0", _outer(8193), _outer(8191)),
    "mm-conjugated": Pair("2.6.0", *(_conjugated(torch.mm, changed) for changed in (torch.conj, torch.conj_physical))),
    "bmm-conjugated": Pair(
        "2.10.0", *(_conjugated(torch.bmm, changed) for changed in (torch.conj, torch.conj_physical))
    ),
    "linear-bfloat16-transposed": Pair("2.13.0", *(_turned(dtype) for dtype in (torch.bfloat16, torch.float32))),
    "linear-backward-five-dims": Pair("2.12.0", *(_deep(size) for size in (1, 2)), "training"),
    "linear-backward-vector-weight": Pair("2.10.0", _vector(33), _vector(1, 33), "training"),
}
