"""Recurrent modules: what a Mac calls, and why.

RNN.cpp asks ``input.is_mps()`` for ``lstm.input`` only; everything else is the generic composite, which away from the
CPU does one step after the other (``FullLayer`` and ``FullBidirectionalLayer`` prepare all steps at once only where
``is_cpu()`` holds).
"""

from __future__ import annotations

import torch
from expectations import Case, floats

EVERY = "1.12.1"
# Two steps in two directions: four cells of LSTMCell::operator(), each two linear, gates added, three sigmoid_ and a
# tanh_ in place, three products, one sum, one tanh. Joined: the steps of each direction, the directions,
# both final states.
_BOTH_WAYS = "add.Tensor*8 sigmoid_*12 tanh_*4 tanh*4 mul.Tensor*12 cat*5"
# Two steps of GRUCell::operator(): two linear, three sums and one more at the end, two sigmoid_, mul_ twice, tanh_, a
# difference. Joined: the steps, the final state.
_GRU = "add.Tensor*8 sigmoid_*4 mul_.Tensor*4 tanh_*2 sub.Tensor*2 cat*2"
# Two steps of SimpleCell: tanh(linear_hh(hidden).add_(linear_ih(input))), out of place.
_RNN = "add.Tensor*2 tanh*2 cat*2"

CASES = [
    Case(
        "LSTM of two layers",
        "_lstm_mps takes all layers at once, lstm_mps_backward gives all gradients, in every release.",
        floats((2, 3, 4), (2, 2, 5), (2, 2, 5)),
        lambda module, x, h, c: module(x, (h, c))[0],
        {EVERY: "_lstm_mps | lstm_mps_backward"},
        module=lambda: torch.nn.LSTM(4, 5, num_layers=2, batch_first=True, dropout=0.1),
    ),
    Case(
        "LSTM in both directions",
        "1.12.0 to 2.0.1 do not take _lstm_mps for bidirectional ones.",
        floats((2, 3, 4), (2, 3, 5), (2, 3, 5)),
        lambda module, x, h, c: module(x, (h, c))[0],
        {
            EVERY: f"_mps_linear*8 {_BOTH_WAYS}",
            "1.13.1": f"linear*8 {_BOTH_WAYS}",
            "2.4.1": "_lstm_mps",
        },
        module=lambda: torch.nn.LSTM(4, 5, bidirectional=True),
    ),
    Case(
        "LSTM with projections",
        "The kernel refuses them from 2.0.0 on: 'LSTM with projections is not currently supported with MPS.'",
        floats((2, 3, 4), (1, 3, 2), (1, 3, 5)),
        lambda module, x, h, c: module(x, (h, c))[0],
        {"2.0.0": "unsupported:_lstm_mps"},
        module=lambda: torch.nn.LSTM(4, 5, proj_size=2),
    ),
    Case(
        "GRU",
        "No branch for MPS in any release.",
        floats((2, 3, 4), (1, 3, 5)),
        lambda module, x, h: module(x, h)[0],
        {EVERY: f"_mps_linear*4 {_GRU}", "1.13.1": f"linear*4 {_GRU}"},
        module=lambda: torch.nn.GRU(4, 5),
    ),
    Case(
        "plain recurrent network",
        "No branch for MPS in any release.",
        floats((2, 3, 4), (1, 3, 5)),
        lambda module, x, h: module(x, h)[0],
        {EVERY: f"_mps_linear*4 {_RNN}", "1.13.1": f"linear*4 {_RNN}"},
        module=lambda: torch.nn.RNN(4, 5),
    ),
    Case(
        "plain recurrent network, training",
        "Backward, step by step: linear_backward twice, tanh_backward once. The weights of both steps meet "
        "(4 parameters), "
        "and the hidden state of the first step has two consumers, the output and the second step. The steps "
        "of the input and "
        "the layers of the state are joined again.",
        floats((2, 3, 4), (1, 3, 5)),
        lambda module, x, h: module(x, h)[0],
        {
            EVERY: f"_mps_linear*4 {_RNN} | mps_linear_backward*4 tanh_backward*2 add.Tensor*5 cat*2",
            "1.13.1": f"linear*4 {_RNN} | linear_backward*4 tanh_backward*2 add.Tensor*5 cat*2",
        },
        module=lambda: torch.nn.RNN(4, 5),
    ),
    Case(
        "one GRU cell",
        "_thnn_fused_gru_cell is for CUDA; the generic cell once.",
        floats((3, 4), (3, 5)),
        lambda module, x, h: module(x, h),
        {
            EVERY: "_mps_linear*2 add.Tensor*4 sigmoid_*2 mul_.Tensor*2 tanh_ sub.Tensor",
            "1.13.1": "linear*2 add.Tensor*4 sigmoid_*2 mul_.Tensor*2 tanh_ sub.Tensor",
        },
        module=lambda: torch.nn.GRUCell(4, 5),
    ),
    Case(
        "one LSTM cell",
        "_thnn_fused_lstm_cell is for CUDA; the generic cell once.",
        floats((3, 4), (3, 5), (3, 5)),
        lambda module, x, h, c: module(x, (h, c))[0],
        {
            EVERY: "_mps_linear*2 add.Tensor*2 sigmoid_*3 tanh_ tanh mul.Tensor*3",
            "1.13.1": "linear*2 add.Tensor*2 sigmoid_*3 tanh_ tanh mul.Tensor*3",
        },
        module=lambda: torch.nn.LSTMCell(4, 5),
    ),
]
