"""Recurrent modules: what a Mac calls, and why.

RNN.cpp asks ``input.is_mps()`` for ``lstm.input`` only; everything else is the generic composite, which away from the
CPU does one step after the other (``FullLayer`` and ``FullBidirectionalLayer`` prepare all steps at once only where
``is_cpu()`` holds).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from expectations import EVERY, Case, Program, of

# Two steps in two directions: four cells of LSTMCell::operator(), each two linear, gates added, three sigmoid_ and a
# tanh_ in place, three products, one sum, one tanh. Joined: steps of each direction, directions, both final states.
_BOTH_WAYS = "add.Tensor*8 sigmoid_*12 tanh_*4 tanh*4 mul.Tensor*12 cat*5"
# Two steps of GRUCell::operator(): two linear, three sums and one more at the end, two sigmoid_, mul_ twice, tanh_, a
# difference. Joined: the steps, the final state.
_GRU = "add.Tensor*8 sigmoid_*4 mul_.Tensor*4 tanh_*2 sub.Tensor*2 cat*2"
# Two steps of SimpleCell: tanh(linear_hh(hidden).add_(linear_ih(input))), out of place.
_RNN = "add.Tensor*2 tanh*2 cat*2"


def _of(kind: Callable[..., torch.nn.Module], *inputs: tuple[int, ...], **options: Any) -> Program:
    """A recurrent module for four features, with a state of five; of a tuple that it returns, the first."""

    def run(module: torch.nn.Module, x: torch.Tensor, *state: torch.Tensor) -> torch.Tensor:
        found = module(x, state if len(state) == 2 else state[0])
        return found[0] if isinstance(found, tuple) else found

    return of(run, *inputs, module=lambda: kind(4, 5, **options))


def _linear(calls: int, others: str, backward: str = "") -> dict[str, str]:
    """So many linear layers, and what else is called."""
    return {
        EVERY: f"_mps_linear*{calls} {others}" + backward.replace("linear", "mps_linear"),
        "1.13.1": f"linear*{calls} {others}{backward}",
    }


CASES = {
    "LSTM of two layers: _lstm_mps takes all layers at once, lstm_mps_backward gives all gradients, in every "
    "release.": Case(
        _of(torch.nn.LSTM, (2, 3, 4), (2, 3, 5), (2, 3, 5), num_layers=2, dropout=0.1),
        "_lstm_mps | lstm_mps_backward",
    ),
    "LSTM in both directions: 1.12.0 to 2.0.1 do not take _lstm_mps for bidirectional ones.": Case(
        _of(torch.nn.LSTM, (2, 3, 4), (2, 3, 5), (2, 3, 5), bidirectional=True),
        {**_linear(8, _BOTH_WAYS), "2.4.1": "_lstm_mps"},
    ),
    "LSTM with projections: The kernel refuses them from 2.0.0 on: 'LSTM with projections is not currently supported "
    "with MPS.'": Case(
        _of(torch.nn.LSTM, (2, 3, 4), (1, 3, 2), (1, 3, 5), proj_size=2), {"2.0.0": "unsupported:_lstm_mps"}
    ),
    "GRU: No branch for MPS in any release.": Case(_of(torch.nn.GRU, (2, 3, 4), (1, 3, 5)), _linear(4, _GRU)),
    "plain recurrent network: No branch for MPS in any release.": Case(
        _of(torch.nn.RNN, (2, 3, 4), (1, 3, 5)), _linear(4, _RNN)
    ),
    "plain recurrent network, training: Backward, step by step: linear_backward twice, tanh_backward once. The weights "
    "of both steps meet (4 parameters), and the hidden state of the first step has two consumers, the output and the "
    "second step. The steps of the input and the layers of the state are joined again.": Case(
        _of(torch.nn.RNN, (2, 3, 4), (1, 3, 5)),
        _linear(4, _RNN, " | linear_backward*4 tanh_backward*2 add.Tensor*5 cat*2"),
    ),
    "one GRU cell: _thnn_fused_gru_cell is for CUDA; the generic cell once.": Case(
        _of(torch.nn.GRUCell, (3, 4), (3, 5)), _linear(2, "add.Tensor*4 sigmoid_*2 mul_.Tensor*2 tanh_ sub.Tensor")
    ),
    "one LSTM cell: _thnn_fused_lstm_cell is for CUDA; the generic cell once.": Case(
        _of(torch.nn.LSTMCell, (3, 4), (3, 5), (3, 5)), _linear(2, "add.Tensor*2 sigmoid_*3 tanh_ tanh mul.Tensor*3")
    ),
}
