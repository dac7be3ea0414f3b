"""Operators that have a kernel and no derivative in the release, because they are composite on other devices.

``linalg_lu_factor`` had a kernel of MPS from 2.5 to 2.9 (pytorch#99269, taken out by pytorch#165871). With a kernel
autograd does not use the composite one, and there is no formula: the result requires a gradient and passes none on.
PyTorch warns of that in the backward pass, where it says nothing of MPS; here the report says it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import torch

from mpsprobe_coverage.knowledge.calls.keys import has_kernel, is_implicit, overload_named
from mpsprobe_coverage.knowledge.calls.spec import tensors_in
from mpsprobe_coverage.knowledge.judging.renames import renames
from mpsprobe_coverage.knowledge.kernels.table import KernelTable
from mpsprobe_coverage.recording.attribution import Attribution
from mpsprobe_coverage.recording.recorder import Recorder


@cache
def is_composite(name: str) -> bool:
    """Whether autograd goes through the operator in the installed torch by what it is made of."""
    return is_implicit(name) and not has_kernel(name, "Autograd")


def now_composite(table: KernelTable) -> frozenset[str]:
    """Those with a derivative in the release that the installed torch makes of one with another name (``prelu``)."""
    return frozenset(name for name in renames(table).values() if is_composite(name))


def kernels(table: KernelTable, recorder: Recorder, attribution: Attribution) -> dict[str, Callable[..., Any]]:
    """Operator → what stands above autograd for it."""
    names = (n for n in table.native - now_composite(table) if n.startswith("aten::") and is_composite(n))
    # Those that write into their arguments (``diag.out``) are called below autograd.
    overloads = ((name, overload_named(name)) for name in names)

    def ends(name: str) -> None:
        if recorder.phase is not None:
            recorder.gradients_end[name] = attribution.current()

    return {name: partial(_run, func, partial(ends, name)) for name, func in overloads if not func._schema.is_mutable}


def _run(func: Any, ends: Callable[[], None], *args: Any, **kwargs: Any) -> Any:
    def below_autograd() -> Any:
        with torch._C._AutoDispatchBelowAutograd():
            return func(*args, **kwargs)

    return _Ends.apply(below_autograd, ends, *tensors_in((args, kwargs)))


class _Ends(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, run: Callable[[], Any], ends: Callable[[], None], *tensors: torch.Tensor) -> Any:
        ctx.ends, ctx.count = ends, len(tensors)
        ctx.set_materialize_grads(False)
        result = run()
        return tuple(result) if isinstance(result, tuple) else result

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        ctx.ends()
        return (None,) * (2 + ctx.count)
