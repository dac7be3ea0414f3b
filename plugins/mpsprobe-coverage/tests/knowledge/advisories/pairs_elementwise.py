"""Pairs of ``elementwise.toml``; see ``pairs.py``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from pairs import Function, Pair, _strided
from torch.nn import functional

HALF, LONG = torch.float16, torch.int64


def _remainder(largest: int) -> Function:
    return lambda x: torch.tensor([largest, 5], device=x.device) % 31


def _added(alpha: float) -> Function:
    return lambda x: x.new_zeros(4, 8, dtype=HALF).add_(x.new_zeros(4, 8), alpha=alpha)


def _nan(value: float, operator: Any) -> Function:
    return lambda x: operator(torch.tensor([value, 1.0], device=x.device))


def _flags(x: torch.Tensor) -> torch.Tensor:
    return x.new_zeros(3, dtype=torch.bool)


def _filled(operator: str, value: float, *shape: int, dtype: torch.dtype = torch.float32, **options: Any) -> Function:
    """The operator of a tensor that is full of ``value``."""
    return lambda x: getattr(torch, operator)(x.new_full(shape, value, dtype=dtype), **options)


INFINITE, LARGE = float("inf"), 2**24 + 1


def _backward(operator: Callable[..., Any], permuted: bool) -> Function:
    """The operator of a permuted image that needs a gradient, whose mean has a contiguous one."""

    def run(x: torch.Tensor) -> torch.Tensor:
        image = x.new_zeros(1, 7, 4, 3) + x.sum()
        return operator(image.permute(0, 3, 1, 2) if permuted else image)

    return run


def _floored(value: float) -> Function:
    return lambda x: torch.div(x.new_full((3,), value), x.new_ones(3), rounding_mode="floor")


def _spaced(start: float, end: float) -> Function:
    return lambda x: torch.linspace(start, end, 9, dtype=torch.int32, device=x.device)


PAIRS = {
    "elu-strided": Pair(
        "2.3.1", lambda x: functional.elu(x.new_zeros(5, 4).t()), lambda x: functional.elu(x.new_zeros(5, 4))
    ),
    "remainder-large-integers": Pair("2.7.0", _remainder(42309891), _remainder(42309)),
    "fmax-mixed-dtypes": Pair(
        "2.6.0", lambda x: torch.fmax(x, x.new_zeros(3, dtype=HALF)), lambda x: torch.fmax(x, x.new_zeros(3))
    ),
    "add-alpha-promoted": Pair("2.11.0", _added(0.5), _added(1)),
    "maximum-nan": Pair(
        "2.6.0", *(_nan(value, lambda made: torch.maximum(made, made)) for value in (float("nan"), 0.0))
    ),
    "shift-of-a-number": Pair(
        "2.6.0", lambda x: 1 << x.new_zeros(4, dtype=LONG), lambda x: x.new_zeros(4, dtype=LONG) << 1
    ),
    "shift-uint8": Pair(
        "2.5.1", lambda x: x.new_zeros(4, dtype=torch.uint8) >> 4, lambda x: x.new_zeros(4, dtype=torch.int32) >> 4
    ),
    "clamp-nan": Pair("2.1.2", *(_nan(value, lambda made: made.clamp(0, 1)) for value in (float("nan"), 0.0))),
    "unary-strided-output": Pair(
        "2.1.2",
        lambda x: torch.neg(x.new_zeros(2, 2), out=x.new_zeros(2, 2).t()),
        lambda x: torch.neg(x.new_zeros(2, 2), out=x.new_zeros(2, 2)),
    ),
    "unary-offset-in-place": Pair(
        "2.0.0", lambda x: x.new_zeros(2, 3)[1].tanh_(), lambda x: x.new_zeros(2, 3)[0].tanh_()
    ),
    "bitwise-not-strided": Pair(
        "2.7.0",
        lambda x: x.new_zeros(4, dtype=torch.int32)[::2].bitwise_not_(),
        lambda x: x.new_zeros(4, dtype=torch.int32)[:2].bitwise_not_(),
    ),
    "nextafter-negative": Pair(
        "2.3.0",
        lambda x: torch.nextafter(torch.tensor([-1.0], device=x.device), x.new_zeros(1)),
        lambda x: torch.nextafter(torch.tensor([1.0], device=x.device), x.new_zeros(1)),
    ),
    "nextafter-bfloat16": Pair(
        "2.13.0",
        lambda x: torch.nextafter(x.new_zeros(2, dtype=torch.bfloat16), x.new_zeros(2, dtype=torch.bfloat16)),
        lambda x: torch.nextafter(x.new_zeros(2), x.new_zeros(2)),
    ),
    "mul-complex-and-real": Pair("2.2.0", lambda x: x * 1j, lambda x: torch.complex(x, x) * torch.complex(x, x)),
    "bitwise-bool-scalar-offset": Pair(
        "2.11.0", lambda x: _flags(x) & _flags(x)[1], lambda x: _flags(x) & _flags(x)[0]
    ),
    "cpu-scalar-view": Pair("2.12.0", lambda x: x * torch.ones(4)[2], lambda x: x * torch.ones(4)[0]),
    "triu-in-place-macos-14": Pair(
        "2.7.1", lambda x: x.new_zeros(3, 4).t().triu_(), lambda x: x.new_zeros(3, 4).triu_(), macos="14.0"
    ),
    "lgamma-strided": Pair("2.10.0", *_strided(torch.lgamma)),
    "abs-integers-large": Pair(
        "2.13.0", *(_filled("abs", value, 3, dtype=torch.int64) for value in (LARGE, LARGE - 1))
    ),
    "triu-infinite": Pair("2.2.2", *(_filled("triu", value, 4, 4, diagonal=1) for value in (-INFINITE, -1.0))),
    "tril-infinite": Pair("2.6.0", *(_filled("tril", INFINITE, 4, 4, diagonal=diagonal) for diagonal in (-1, 0))),
    "tanh-backward-permuted": Pair("2.10.0", *(_backward(torch.tanh, one) for one in (True, False)), "training"),
    "silu-backward-permuted": Pair("2.10.0", *(_backward(functional.silu, one) for one in (True, False)), "training"),
    "floor-divide-infinite": Pair("2.13.0", _floored(INFINITE), _floored(2.0)),
    "clamp-permuted": Pair("2.0.0", *_strided(lambda x: x.clamp(0, 1))),
    "log-permuted": Pair("1.13.0", *_strided(torch.log)),
    "mish-strided": Pair("2.3.1", *_strided(functional.mish)),
    "abs-complex": Pair(
        "2.3.0", *(lambda x, size=size: torch.view_as_complex(x.new_zeros(size, 2)).abs() for size in (2, 1))
    ),
    "abs-complex-overflow": Pair(
        "2.10.0",
        *(
            lambda x, held=held: torch.tensor([held], dtype=torch.complex64, device=x.device).abs()
            for held in (1e32, 1)
        ),
    ),
    "pow-complex-zero": Pair(
        "2.5.1", *(lambda x, least=least: torch.tensor([least, 1j], device=x.device) ** 2 for least in (0j, 1 + 0j))
    ),
    "hypot-infinite": Pair(
        "2.13.0", *(lambda x, held=held: torch.hypot(x.new_full((2,), held), x.new_ones(2)) for held in (3e38, 3.0))
    ),
    "linspace-large-integers": Pair("2.13.0", *(_spaced(2**power, 2**power + 8) for power in (25, 10))),
    "linspace-fractional-ends": Pair("2.12.0", _spaced(4.3, -3), _spaced(4.0, -3)),
    "gelu-half-1-12": Pair(
        "1.12.1",
        *(lambda x, dtype=dtype: functional.gelu(x.new_zeros(3, dtype=dtype)) for dtype in (HALF, torch.float32)),
    ),
}
