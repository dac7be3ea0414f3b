"""Dtypes with which the code of a kernel can only raise: its checks and its dtype switches (``AT_DISPATCH``).

Read from the machine code of each release's library (``kernels/kernel_facts.py``); it holds for tensors that have
elements, as kernels return early without any.
"""

from __future__ import annotations

import functools

import torch

from mpsprobe_coverage.knowledge.calls.call import Call
from mpsprobe_coverage.knowledge.calls.spec import TensorSpec, dtype_name, specs_in
from mpsprobe_coverage.knowledge.judging.judgement import Judgement, Rule, refused
from mpsprobe_coverage.knowledge.kernels.kernel_facts import CAST, EVERY, SAME, Refusal, facts_releases, load_facts
from mpsprobe_coverage.knowledge.kernels.releases import since_without_gap
from mpsprobe_coverage.knowledge.kernels.table import KernelTable

_CALLED = {EVERY: "all tensors", SAME: "all tensors", CAST: "one of two dtypes"}


def rules_of(operator: str, table: KernelTable) -> tuple[Rule, ...]:
    refusals = tuple(sorted(load_facts(table.release).refusals.get(operator, ()), key=str))
    names = {name for refusal in refusals for name in refusal.dtypes if hasattr(torch, name)}
    dtypes = frozenset(getattr(torch, name) for name in names)
    return (Rule("switches", _refuse, (refusals,), (operator, table.release), dtypes),) if refusals else ()


def _refuse(call: Call, refusals: tuple[Refusal, ...], operator: str, release: str) -> Judgement | None:
    if _has_nothing(call):
        return None
    for refusal in refusals:
        dtype = _dtype(refusal, call)
        if dtype is not None:
            message = refusal.message.replace("Trying to convert …", f"Trying to convert {dtype}")
            what = _CALLED.get(refusal.argument, f"'{refusal.argument}'")
            return refused(
                f"{message} ({what}: {dtype})" if message else f"its kernel raises for {dtype} ({what})",
                _accepted_since(operator, refusal.argument, dtype),
                evidence=refusal.message or f"the code of the kernel in torch {release}",
            )
    return None


def _dtype(refusal: Refusal, call: Call) -> str | None:
    """The dtype of ``call`` that is refused."""
    specs: tuple[TensorSpec | None, ...]
    if refusal.argument == CAST:
        specs = call.inputs if _casts_on_device(call) else ()
        return next((name for name in map(_name, specs) if name in refusal.dtypes), None)
    if refusal.argument == EVERY:
        specs = call.inputs
    elif refusal.argument == SAME:
        specs = (*call.inputs, *call.outputs)
    else:
        specs = (_of_argument(refusal.argument, call),)
    names = set(map(_name, specs))
    dtype = names.pop() if len(names) == 1 else None
    return dtype if dtype in refusal.dtypes else None


def _has_nothing(call: Call) -> bool:
    """Whether a tensor has no elements; what is handed over for the result (``out``) gets its size from the kernel."""
    if any(spec.numel == 0 for spec in call.outputs):
        return True
    if all(spec.numel for spec in call.inputs):
        return False
    arguments = (a.name for a in call.func._schema.arguments if not a.is_out)
    return any(spec.numel == 0 for spec in specs_in([call.argument(name) for name in arguments]))


def _name(spec: TensorSpec | None) -> str | None:
    return None if spec is None else dtype_name(spec.dtype)


def _casts_on_device(call: Call) -> bool:
    """Whether the device converts: what is copied lies there, and gets another dtype.

    To the CPU too (``copy_from_mps_`` in ``Copy.mm``); what comes from there was converted before (``copy_to_mps_``).
    """
    copied = [value for value in call.args[:2] if isinstance(value, torch.Tensor)]
    return len(copied) == 2 and copied[1].device.type != "cpu" and copied[0].dtype != copied[1].dtype


def _of_argument(name: str, call: Call) -> TensorSpec | None:
    try:
        return call.spec(name)
    except KeyError:  # the installed torch has another name for it
        return None


@functools.cache
def _accepted_since(operator: str, argument: str, dtype: str) -> str | None:
    """The first release from which on no kernel of the operator refuses it."""
    of_all = argument in (EVERY, SAME)  # then any one of the tensors has it

    def accepts(release: str) -> bool:
        refusals = load_facts(release).refusals.get(operator, ())
        meant = (
            refusal for refusal in refusals if refusal.argument == argument or (of_all and refusal.argument != CAST)
        )
        return not any(dtype in refusal.dtypes for refusal in meant)

    return since_without_gap(facts_releases(), accepts)
