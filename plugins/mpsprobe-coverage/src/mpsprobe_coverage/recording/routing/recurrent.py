"""``lstm``: ``aten/src/ATen/native/RNN.cpp`` asks ``input.is_mps()`` and calls ``_lstm_mps``.

Established by disassembling ``at::native::lstm`` in the macOS libraries of 1.12.0 to 2.15.0. ``gru``,
``rnn_tanh``, ``rnn_relu`` and packed sequences have no such branch in any release: what they are made of
is judged, with no route.
"""

from __future__ import annotations

import torch
from torch._C import DispatchKey

from mpsprobe_coverage.knowledge.kernels.table import KernelTable
from mpsprobe_coverage.recording.dispatch import Dispatch, Route, composite_route

_aten = torch.ops.aten


def routes(table: KernelTable) -> list[Route]:
    """One, in every release."""
    del table
    return [composite_route("aten::lstm.input", lstm)]


def lstm(
    dispatch: Dispatch,
    tensor: torch.Tensor,
    hx: list[torch.Tensor],
    params: list[torch.Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[torch.Tensor, ...]:
    """Shapes as ``torch.nn.LSTM`` has them."""
    arguments = (tensor, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)
    if bidirectional and not dispatch.release.at_least("2.1"):
        generic = _aten.lstm.input._op_dk(DispatchKey.CompositeImplicitAutograd, *arguments)
        return tuple(generic)
    return tuple(_aten._lstm_mps(*arguments)[:3])
