"""Virtual tensors that stand for others in what is kept of a call: without values, memory and graph."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import torch

from mpsprobe_coverage.devices.virtual.tensor import VirtualTensor, mapped, undispatched, virtual_tensor
from mpsprobe_coverage.knowledge.calls.call import Call
from mpsprobe_coverage.knowledge.calls.spec import TensorSpec, interned

with undispatched():
    _NOTHING = virtual_tensor(interned((0,), (1,), torch.float32))


@functools.lru_cache(2**14)
def bare_of(spec: TensorSpec) -> VirtualTensor:
    """The one virtual tensor of ``spec`` for this purpose."""
    with undispatched():
        return virtual_tensor(spec, base=_NOTHING)


def _bare(value: Any) -> Any:
    """In place of a virtual tensor one of the same spec, which is kept: without values, and without a graph."""
    return bare_of(value.spec) if type(value) is VirtualTensor else value


def bare_call(call: Call) -> Call:
    """The same call with such tensors."""
    args, kwargs = mapped(_bare, (call.args, call.kwargs))
    return replace(call, args=args, kwargs=kwargs)
