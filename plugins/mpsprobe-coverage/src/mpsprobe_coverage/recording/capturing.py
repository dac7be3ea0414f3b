"""Whether ``torch.compile`` or an export makes the calls of this thread, which the devices run one by one."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterable
from typing import Any

import torch

from mpsprobe_coverage.knowledge.advisories.conditions import Place


class _Thread(threading.local):
    depth = 0


_thread = _Thread()


def is_captured() -> bool:
    return _thread.depth > 0 or torch.compiler.is_compiling()


def is_on_mps(model: Any, inputs: Iterable[Any]) -> bool:
    """Whether what is to be compiled has a tensor of MPS."""
    known = [*inputs, *(model.buffers() if isinstance(model, torch.nn.Module) else ())]
    nodes = model.graph.nodes if isinstance(model, torch.fx.GraphModule) else ()
    known += [node.meta.get("example_value") for node in nodes]
    return any(isinstance(one, torch.Tensor) and one.device.type == "mps" for one in known)


def captured(compiled: Any) -> Any:
    """A module or function whose calls are those of a compiled one."""
    if isinstance(compiled, torch.nn.Module):
        compiled.register_forward_pre_hook(_enter)
        compiled.register_forward_hook(_leave, always_call=True)
        return compiled

    @functools.wraps(compiled)
    def run(*args: Any, **kwargs: Any) -> Any:
        _enter()
        try:
            return compiled(*args, **kwargs)
        finally:
            _leave()

    return run


def eager(model: Any = None, **_options: Any) -> Any:
    """``torch.compile`` that compiles nothing: eager operators are judged; ``cond`` and its like compile themselves."""
    return captured if model is None else captured(model)


def _enter(*_call: Any) -> None:
    _thread.depth += 1


def _leave(*_call: Any) -> None:
    _thread.depth -= 1


class KnownByMemory:
    """What advisories ask of each call, where every tensor has its storage and its values."""

    is_captured = staticmethod(is_captured)

    def place(self, tensor: torch.Tensor) -> Place:
        storage = tensor.untyped_storage()
        return Place(storage._cdata, int(tensor.storage_offset()), storage.nbytes())

    def values(self, tensor: torch.Tensor) -> torch.Tensor | None:
        return tensor if tensor.device.type in ("cpu", "mps") and tensor.layout is torch.strided else None
