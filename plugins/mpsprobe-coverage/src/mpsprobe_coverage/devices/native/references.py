"""What the CPU computes for operators that only MPS has, so that a program prints the same as on the CPU.

Those of the virtual device in Python, and where they have shapes only, or sum in another order than the CPU: values.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch._C import DispatchKey

from mpsprobe_coverage.recording import references
from mpsprobe_coverage.recording.dispatch import Dispatch, Plan, Route

_aten = torch.ops.aten
_BACKWARD = "aten::convolution_backward"
_MOST_DRAWS = 4096
_last = threading.local()
# Address of what `_lstm_mps` keeps for its derivative → the state from which its dropout was drawn.
_draws: OrderedDict[int, torch.Tensor] = OrderedDict()


def _lstm_mps(x: Any, hx: Any, params: Any, biases: bool, layers: int, dropout: float, train: bool, *rest: Any) -> Any:
    state = torch.get_rng_state() if train and dropout else None
    results = references.REFERENCES["aten::_lstm_mps"](x, hx, params, biases, layers, dropout, train, *rest)
    if state is not None:
        _draws[results[3].data_ptr()] = state
        while len(_draws) > _MOST_DRAWS:
            _draws.popitem(last=False)
    return results


def _lstm_mps_backward(
    grad_y: Any, grad_hy: Any, grad_cy: Any, z: Any, cells: Any, x: Any, outputs: Any, hx: Any, params: Any, *rest: Any
) -> Any:
    """The derivative of what the CPU runs, which is run again for it."""
    del cells, outputs
    leaves = [t.detach().requires_grad_() for t in (x, *hx, *params)]
    states = leaves[1 : 1 + len(hx)]
    after = torch.get_rng_state()
    with _autograd():
        if z.data_ptr() in _draws:
            torch.set_rng_state(_draws[z.data_ptr()])
        results = _aten.lstm.input(leaves[0], states, leaves[1 + len(hx) :], *rest)
        torch.set_rng_state(after)
        asked = [(r, g) for r, g in zip(results, (grad_y, grad_hy, grad_cy), strict=True) if g is not None]
        grads = torch.autograd.grad([r for r, _ in asked], leaves, [g for _, g in asked], materialize_grads=True)
    return grads[0], list(grads[1 : 1 + len(hx)]), list(grads[1 + len(hx) :])


@contextmanager
def _autograd() -> Iterator[None]:
    """A kernel runs below autograd; inside, operators of the CPU are differentiated all the same."""
    excluded = torch._C._dispatch_tls_local_exclude_set()
    for key in (DispatchKey.AutogradFunctionality, DispatchKey.ADInplaceOrView):
        excluded = excluded.remove(key)
    with torch._C._ForceDispatchKeyGuard(torch._C._dispatch_tls_local_include_set(), excluded), torch.enable_grad():
        yield


def _convolution_backward(
    x: Any, grad: Any, weight: Any, padding: Any, stride: Any, dilation: Any, groups: int, mask: Any
) -> Any:
    """Gradients of input and weight. That of the bias is remembered: MPS sums it elsewhere, in another order."""
    zeros = [0] * len(padding)
    first, second, _last.bias = _aten.convolution_backward(
        grad, x, weight, [grad.shape[1]], stride, padding, dilation, False, zeros, groups, [mask[0], mask[1], True]
    )
    return first, second, None


def _transposed_backward(
    x: Any, grad: Any, weight: Any, padding: Any, out_padding: Any, stride: Any, dilation: Any, groups: int, mask: Any
) -> Any:
    first, second, _last.bias = _aten.convolution_backward(
        grad, x, weight, [grad.shape[1]], stride, padding, dilation, True, out_padding, groups, [*mask[:2], True]
    )
    return first, second


def _copy_from_and_resize(source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """``target``, of the size of ``source`` (any) and with its values: what a fallback wrote comes back so."""
    return target.resize_(source.shape).copy_(source)


def with_values_of_the_cpu(routes: dict[str, Route]) -> dict[str, Route]:
    """The routes, of which that of a convolution's derivative returns the gradient of the bias that the CPU has."""
    route = routes.get(_BACKWARD)
    if route is None:
        return routes

    def run(dispatch: Dispatch, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        _last.bias = None
        results = route.run(dispatch, plan, args, kwargs)
        if results[2] is not None and _last.bias is not None:
            torch.ops.mpsprobe.overwrite(results[2], _last.bias.to(results[2].dtype))
        return results

    return {**routes, _BACKWARD: replace(route, run=run)}


REFERENCES: dict[str, Callable[..., Any]] = {
    **references.REFERENCES,
    "aten::_copy_from_and_resize": _copy_from_and_resize,
    "aten::_lstm_mps": _lstm_mps,
    "aten::lstm_mps_backward": _lstm_mps_backward,
    "aten::mps_convolution_backward": _convolution_backward,
    "aten::mps_convolution_transpose_backward": _transposed_backward,
}
