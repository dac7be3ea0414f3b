"""Models built without memory and run without data, and what that needs to be assumed."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from mpsprobe.protocols import RunOptions, TorchRun, Workload

ASSUMED = {torch.bool: True}
"""What a model reads from a tensor without data: yes for a mask's ``all()``, else 1."""


class Assumptions(TorchDispatchMode):
    """Answers ``.item()`` on meta tensors, so that a mask can be asked whether it masks anything."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten._local_scalar_dense.default and args[0].is_meta:
            return ASSUMED.get(args[0].dtype, 1)
        return func(*args, **(kwargs or {}))


def build_on_meta(workload: Workload, **options: Any) -> TorchRun:
    """``workload`` with parameters and inputs on meta."""
    with torch.device("meta"):
        run: TorchRun = workload.build(RunOptions(**options))
    return run


def run_once(run: TorchRun, *, training: bool) -> Any:
    """Forward, and loss and backward in training."""
    with torch.set_grad_enabled(training):
        output = run.call(run.model, run.args, run.kwargs) if run.call else run.model(*run.args, **run.kwargs)
        if training:
            assert run.loss is not None
            loss = run.loss(output)
            assert loss.dim() == 0
            loss.backward()
    return output


def run_on_meta(run: TorchRun, *, training: bool) -> Any:
    """``run_once`` without data."""
    with torch.device("meta"), Assumptions():
        return run_once(run, training=training)


def tensors(value: Any) -> list[torch.Tensor]:
    """Every tensor in nested lists and dicts."""
    return [one for one in tree_leaves(value) if isinstance(one, torch.Tensor)]


def parameters(model: Any) -> int:
    """How many there are, each shared one once."""
    return sum(one.numel() for one in model.parameters())


def binds(run: TorchRun) -> None:
    """Assert that ``forward`` takes the inputs."""
    inspect.signature(run.model.forward).bind(*run.args, **run.kwargs)
