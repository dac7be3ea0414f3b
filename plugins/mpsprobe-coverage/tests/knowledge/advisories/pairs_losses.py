"""Pairs of ``losses.toml``; see ``pairs.py``."""

from __future__ import annotations

from typing import Any

import torch
from pairs import Function, Pair
from torch.nn import functional

HALF = torch.float16


def _unreduced(*shape: int) -> Function:
    """The binary cross entropy of a shape, each element on its own, with gradients."""

    def run(x: torch.Tensor) -> Any:
        return functional.binary_cross_entropy(x.new_zeros(shape) + x.sum(), x.new_zeros(shape), reduction="none")

    return run


def _nll_backward(dtype: torch.dtype) -> Function:
    """Of half-precision predictions, with a total weight of ``dtype``."""

    def run(x: torch.Tensor) -> Any:
        target, weight = x.new_zeros(5, dtype=torch.int64), x.new_zeros((), dtype=dtype)
        predicted = x.new_zeros(5, 5, dtype=HALF)
        return torch.ops.aten.nll_loss_backward(x.new_zeros((), dtype=HALF), predicted, target, None, 1, -100, weight)

    return run


def _cross_entropy(dtype: torch.dtype) -> Function:
    return lambda x: functional.cross_entropy(x.new_zeros(3, 5, dtype=dtype), x.new_zeros(3, dtype=torch.int64))


def _accumulated(steps: int) -> Function:
    """Cross entropy in a step whose loss is divided for accumulation, if there is more than one."""

    def run(x: torch.Tensor) -> torch.Tensor:
        loss = functional.cross_entropy(x, x.new_zeros(2, dtype=torch.int64))
        return loss / steps if steps > 1 else loss

    return run


def _predicted(value: float) -> Function:
    return lambda x: functional.binary_cross_entropy(x.new_full((3,), value), x.new_zeros(3))


def _target(dtype: torch.dtype) -> Function:
    return lambda x: functional.binary_cross_entropy(x.new_zeros(3), x.new_zeros(3, dtype=dtype))


def _squared(transposed: bool) -> Function:
    def run(x: torch.Tensor) -> torch.Tensor:
        made = x.new_zeros(4, 5)
        return functional.mse_loss(
            made.t() if transposed else made, (made + 1).t() if transposed else made, reduction="none"
        )

    return run


def _scores(*values: float) -> Function:
    return lambda x: torch.tensor([values], device=x.device).log_softmax(-1)


def _divergence(least: float) -> Function:
    """From a target whose smallest element that is."""
    return lambda x: functional.kl_div(
        x.new_zeros(3), torch.tensor([least, 0.5, 1.0], device=x.device), reduction="sum"
    )


PAIRS = {
    "mse-loss-strided": Pair(
        "2.2.2",
        lambda x: functional.mse_loss(x.new_zeros(5, 4).t(), x.new_zeros(4, 5), reduction="none"),
        lambda x: functional.mse_loss(x.new_zeros(5, 4).t(), x.new_zeros(4, 5)),
    ),
    "bce-backward-trailing-one": Pair("2.9.0", _unreduced(3, 2, 1), _unreduced(3, 2, 2), "training"),
    "cross-entropy-half-2-2": Pair("2.2.2", _cross_entropy(HALF), _cross_entropy(torch.float32)),
    "nll-backward-total-weight": Pair("2.6.0", _nll_backward(torch.float32), _nll_backward(HALF)),
    "bce-half": Pair(
        "2.3.1",
        *(
            lambda x, dtype=dtype: functional.binary_cross_entropy(*[x.new_zeros(4, dtype=dtype)] * 2)
            for dtype in (HALF, torch.float32)
        ),
    ),
    "bce-nan": Pair("2.14.0", _predicted(float("nan")), _predicted(0.5)),
    "bce-target-dtype": Pair("2.13.0", _target(torch.int64), _target(torch.float32)),
    "nll-loss-gradient-unscaled": Pair("1.13.1", _accumulated(4), _accumulated(1), "training"),
    "log-softmax-spread": Pair("1.13.1", _scores(-93.0, 0.0), _scores(-91.0, 0.0)),
    "kl-div-zero-target": Pair("2.0.0", _divergence(0.0), _divergence(0.5)),
}
