"""The pairs of entries that workarounds of libraries led to: clamp, lerp, pad, layer norm."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from pairs import Pair
from torch.nn import functional

HALF, LONG, COMPLEX = torch.float16, torch.int64, torch.complex64


def _columns(view: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[torch.Tensor], Any]:
    """Clamps a part of a table of boxes in place."""
    return lambda x: view(x.new_zeros(6, 4)).clamp_(0, 1)


def _bounded(bound: float) -> Callable[[torch.Tensor], Any]:
    return lambda x: x.new_zeros(3).clamp(min=bound)


def _mixed(weight: torch.Tensor) -> Callable[[torch.Tensor], Any]:
    return lambda x: x.new_zeros(3, dtype=HALF).lerp(x.new_ones(3, dtype=HALF), weight)


def _complex_tanh(dtype: torch.dtype) -> Callable[[torch.Tensor], Any]:
    def run(x: torch.Tensor) -> Any:
        made = torch.tanh(x.to(dtype))
        return made.abs()

    return run


def _video(height: int, width: int) -> Callable[[torch.Tensor], Any]:
    return lambda x: functional.pad(x.new_zeros(1, 1, 4, height, width), (0, 0, 0, 0, 2, 0))


def _norm(permuted: bool) -> Callable[[torch.Tensor], Any]:
    def run(x: torch.Tensor) -> Any:
        made = x.new_zeros(2, 3, 4).transpose(0, 1)
        return functional.layer_norm(made if permuted else made.contiguous(), (4,), x.new_zeros(4), x.new_zeros(4))

    return run


PAIRS = {
    "clamp-view-in-place": Pair("2.9.1", _columns(lambda boxes: boxes[:, 0]), _columns(lambda boxes: boxes[0])),
    "clamp-view-in-place-2-4": Pair("2.4.1", _columns(lambda boxes: boxes[:, 0]), _columns(lambda boxes: boxes[0])),
    "clamp-integers-float-bound": Pair(
        "2.4.0", lambda x: x.new_zeros(3, dtype=LONG).clamp(min=0.5), lambda x: x.new_zeros(3, dtype=LONG).clamp(min=1)
    ),
    "clamp-tiny-bound": Pair("2.9.1", _bounded(1e-8), _bounded(1e-6)),
    "lerp-infinite": Pair(
        "2.13.0",
        *(lambda x, held=held: torch.lerp(x.new_full((2,), held), x.new_ones(2), 0.5) for held in (-math.inf, 2.0)),
    ),
    "lerp-number-dtype": Pair("2.14.0", _mixed(torch.tensor(0.1)), _mixed(torch.tensor(0.1, dtype=HALF))),
    "tanh-backward-complex": Pair("2.13.0", _complex_tanh(COMPLEX), _complex_tanh(HALF), "training"),
    "pad-volume-large-frame": Pair("2.13.0", _video(64, 1024), _video(64, 1023)),
    "pad-wider-than-input": Pair(
        "1.13.1",
        lambda x: functional.pad(x.new_zeros(1, 1), (7, 0)),
        lambda x: functional.pad(x.new_zeros(1, 8), (7, 0)),
    ),
    "layer-norm-permuted-1-12": Pair("1.12.1", _norm(permuted=True), _norm(permuted=False)),
    "isposinf-empty": Pair("2.8.0", lambda x: torch.isposinf(x.new_zeros(0)), lambda x: torch.isposinf(x.new_zeros(1))),
}
