"""Pairs of ``recurrent.toml``; see ``pairs.py``."""

from __future__ import annotations

from typing import Any

import torch
from pairs import Function, Pair


def _evaluated(dropout: float) -> Function:
    def run(x: torch.Tensor) -> Any:
        weights = [x.new_zeros(shape) for _ in range(2) for shape in ((12, 3), (12, 3), (12,), (12,))]
        states = (x.new_zeros(2, 2, 3), x.new_zeros(2, 2, 3))
        return torch.lstm(x.new_zeros(5, 2, 3), states, weights, True, 2, dropout, False, False, False)[0]

    return run


def _trained(transposed: bool) -> Function:
    """An LSTM whose input needs a gradient."""

    def run(x: torch.Tensor) -> torch.Tensor:
        inner = x.new_zeros((2, 5, 3) if transposed else (5, 2, 3)) + x.sum()
        weights = [x.new_zeros(12, 3), x.new_zeros(12, 3), x.new_zeros(12), x.new_zeros(12)]
        states = (x.new_zeros(1, 2, 3), x.new_zeros(1, 2, 3))
        given = inner.transpose(0, 1) if transposed else inner
        return torch.lstm(given, states, weights, True, 1, 0.0, True, False, False)[0]

    return run


def _first(batch_first: bool, steps: int = 5) -> Function:
    """An LSTM of two samples."""

    def run(x: torch.Tensor) -> torch.Tensor:
        weights = [x.sum() + x.new_zeros(12, 3), x.new_zeros(12, 3), x.new_zeros(12), x.new_zeros(12)]
        given = x.new_zeros(2, steps, 3) if batch_first else x.new_zeros(steps, 2, 3)
        states = (x.new_zeros(1, 2, 3), x.new_zeros(1, 2, 3))
        return torch.lstm(given + x.sum(), states, weights, True, 1, 0.0, True, False, batch_first)[0]

    return run


def _layers(state: float) -> Function:
    """An LSTM of two layers whose states begin with that number."""

    def run(x: torch.Tensor) -> torch.Tensor:
        weights = [x.new_zeros(12, 3), x.new_zeros(12, 3), x.new_zeros(12), x.new_zeros(12)] * 2
        states = (x.new_full((2, 2, 3), state), x.new_zeros(2, 2, 3))
        return torch.lstm(x.new_zeros(5, 2, 3), states, weights, True, 2, 0.0, False, False, False)[0]

    return run


def _dropped(dropout: float) -> Function:
    """Two layers in training mode with that dropout between them."""

    def run(x: torch.Tensor) -> torch.Tensor:
        weights = [x.new_zeros(shape) for _ in range(2) for shape in ((12, 3), (12, 3), (12,), (12,))]
        states = (x.new_zeros(2, 2, 3), x.new_zeros(2, 2, 3))
        return torch.lstm(x.new_zeros(5, 2, 3), states, weights, True, 2, dropout, True, False, False)[0]

    return run


def _both(directions: int) -> Function:
    """An LSTM of one layer in one or both directions."""

    def run(x: torch.Tensor) -> torch.Tensor:
        weights = [x.new_zeros(12, 3), x.new_zeros(12, 3), x.new_zeros(12), x.new_zeros(12)] * directions
        states = (x.new_zeros(directions, 2, 3), x.new_zeros(directions, 2, 3))
        return torch.lstm(x.new_zeros(5, 2, 3), states, weights, True, 1, 0.0, False, directions == 2, False)[0]

    return run


def _used(result: int) -> Function:
    """Of an LSTM, the output or the last hidden state, whose loss is trained."""

    def run(x: torch.Tensor) -> torch.Tensor:
        weights = [x.new_zeros(12, 3), x.new_zeros(12, 3), x.new_zeros(12), x.new_zeros(12)]
        states = (x.new_zeros(1, 2, 3), x.new_zeros(1, 2, 3))
        return torch.lstm(x.new_zeros(5, 2, 3) + x.sum(), states, weights, True, 1, 0.0, True, False, False)[result]

    return run


PAIRS = {
    "lstm-dropout-in-evaluation": Pair("2.11.0", _evaluated(0.5), _evaluated(0.0)),
    "lstm-backward-strided-input": Pair("2.10.0", _trained(transposed=True), _trained(transposed=False), "training"),
    "lstm-batch-first-transposed": Pair("1.12.0", _first(batch_first=True), _first(batch_first=False)),
    "lstm-batch-first-gradient": Pair(
        "1.13.1", _first(batch_first=True, steps=2), _first(batch_first=False), "training"
    ),
    "lstm-layers-states": Pair("1.13.1", _layers(0.5), _layers(0.0)),
    "lstm-bidirectional-1-13": Pair("1.13.1", _both(2), _both(1)),
    "lstm-backward-unused-output": Pair("2.0.1", _used(1), _used(0), "training"),
    "lstm-batch-first-backward-ends": Pair("1.13.0", _first(batch_first=True), _first(batch_first=False), "training"),
    "lstm-dropout-one": Pair("2.13.0", _dropped(1.0), _dropped(0.9)),
}
