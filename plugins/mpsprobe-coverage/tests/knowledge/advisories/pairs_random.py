"""Pairs of ``random.toml``; see ``pairs.py``."""

from __future__ import annotations

import torch
from pairs import Function, Pair


def _drawn(probability: float) -> Function:
    return lambda x: torch.multinomial(torch.tensor([probability, 0.5], device=x.device), 1)


def _drawn_classes(classes: int, samples: int, *, replacement: bool = True) -> Function:
    return lambda x: torch.multinomial(x.new_zeros(classes) + 1, samples, replacement=replacement)


def _sampled(value: float, count: int = 1, replacement: bool = False) -> Function:
    return lambda x: torch.multinomial(torch.cat([x.new_full((5,), value), x.new_ones(5)]), count, replacement)


PAIRS = {
    "multinomial-zero-probability": Pair("2.13.0", _drawn(0.0), _drawn(0.5)),
    "random-five-dims": Pair(
        "2.6.0", *(lambda x, dims=dims: torch.randn((2, *[1] * (dims - 1)), device=x.device) for dims in (5, 4))
    ),
    "random-strided": Pair(
        "2.9.1", lambda x: torch.rand_like(x.new_zeros(3, 2).t()), lambda x: torch.rand_like(x.new_zeros(3, 2))
    ),
    "multinomial-many-classes": Pair("2.11.0", _drawn_classes(131072, 100), _drawn_classes(65536, 100)),
    "multinomial-replacement-macos-13": Pair("2.1.2", _drawn_classes(32768, 2), _drawn_classes(32767, 2)),
    "multinomial-strided": Pair(
        "2.5.1",
        lambda x: torch.multinomial((x.new_zeros(4, 2) + 1).t(), 1),
        lambda x: torch.multinomial(x.new_zeros(4, 2) + 1, 1),
    ),
    "exponential-zeros": Pair("2.7.1", lambda x: x.new_zeros(9).exponential_(), lambda x: x.new_zeros(9).uniform_()),
    "bernoulli-macos-13": Pair("1.12.1", lambda x: torch.bernoulli(x.sigmoid()), lambda x: torch.rand_like(x)),
    "multinomial-macos-12": Pair("2.3.1", _sampled(0.5, 3, replacement=True), _sampled(0.5, 3)),
    "normal-nan": Pair(
        "1.13.0", *(lambda x, count=count: torch.randn(count, device=x.device) for count in (1000, 999))
    ),
    "randperm-two-groups": Pair("2.0.1", *(lambda x, n=n: torch.randperm(n, device=x.device) for n in (2, 1))),
    "uniform-half-upper-end": Pair(
        "2.14.0",
        *(lambda x, dtype=dtype: torch.rand(512, dtype=dtype, device=x.device) for dtype in (torch.half, torch.float)),
    ),
}
