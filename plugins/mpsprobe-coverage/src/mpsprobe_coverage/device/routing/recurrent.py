"""``lstm``: ``aten/src/ATen/native/RNN.cpp`` asks ``input.is_mps()`` and calls ``_lstm_mps``.

Established by disassembling ``at::native::lstm`` in the macOS libraries of 1.12.0 to 2.15.0. ``gru``,
``rnn_tanh``, ``rnn_relu`` and packed sequences have no such branch in any release: what they are made of
is judged, with no route.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch._C import DispatchKey

from mpsprobe_coverage.device.refusal import Refusal
from mpsprobe_coverage.device.routing.route import Route, at_least, composite_route
from mpsprobe_coverage.kernels.table import KernelTable

if TYPE_CHECKING:
    from mpsprobe_coverage.device.interception import Interception
    from mpsprobe_coverage.device.plan import Plan

_aten = torch.ops.aten
PROJECTIONS = Refusal("LSTM with projections is not currently supported with MPS.")
REFUSALS_CHANGE = {"aten::_lstm_mps": ("2.0",)}


def routes(table: KernelTable) -> list[Route]:
    """``lstm`` above autograd, and the refusal of projections below it."""
    del table
    return [composite_route("aten::lstm.input", lstm), Route("aten::_lstm_mps", _lstm_mps)]


def lstm(
    interception: Interception,
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
    if bidirectional and not at_least(interception.tables["aten"], "2.1"):
        generic = _aten.lstm.input._op_dk(DispatchKey.CompositeImplicitAutograd, *arguments)
        return tuple(generic)
    return tuple(_aten._lstm_mps(*arguments)[:3])


def _lstm_mps(interception: Interception, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    hidden, cell = args[1][0], args[1][1]
    projected = hidden.size(2) != cell.size(2) and at_least(interception.tables["aten"], "2.0")
    return interception.leaf(plan, args, kwargs, PROJECTIONS if projected else None)
