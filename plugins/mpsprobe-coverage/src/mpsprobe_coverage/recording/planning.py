"""How a call of each operator goes on, on the target release: decided once, looked up at every call.

``judging/registration.py`` says what that release's dispatcher does with it; the installed torch only executes.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import torch
from torch._C import DispatchKey

from mpsprobe_coverage.knowledge.calls.keys import has_kernel, operator_name, overload_named
from mpsprobe_coverage.knowledge.calls.spec import spec_of
from mpsprobe_coverage.knowledge.judging.chain import Chain, Judges
from mpsprobe_coverage.knowledge.judging.judgement import Judgement
from mpsprobe_coverage.knowledge.judging.registration import may_have_kernel
from mpsprobe_coverage.knowledge.kernels.compositions import load_compositions
from mpsprobe_coverage.knowledge.kernels.releases import installed_release
from mpsprobe_coverage.knowledge.kernels.table import KernelTable
from mpsprobe_coverage.recording.dispatch import Entry, Plan, Route
from mpsprobe_coverage.recording.references import REFERENCES

_COMPOSITE_KEYS = (
    DispatchKey.CompositeExplicitAutogradNonFunctional,
    DispatchKey.CompositeExplicitAutograd,
    DispatchKey.CompositeImplicitAutograd,
)
# A view that the schema does not call one: its kernel makes a plain tensor of the same memory.
_UNSAFE_VIEW = torch.ops.aten._unsafe_view.default


def make_plan(func: Any, chain: Chain, routes: Mapping[str, Route], key: str | None = None) -> Plan:
    """Decide for ``func``; ``key`` is the dispatch key of the call's arguments where those are sparse."""
    judges = chain.judges_of(func, key)
    name, registered = judges.operator, judges.registered
    table = chain.tables.get(func.namespace)
    if table is None:
        composite = composite_key(func)
        return _finish(Plan(func, Entry.KERNEL if composite is None else Entry.COMPOSITE, judges, composite))
    route = routes.get(operator_name(func))
    if route is not None and not (route.only_without_kernel and registered.verdict in ("native", "fallback")):
        return _finish(Plan(func, Entry.ROUTE, judges, composite_key(func), route=route))
    plan = Plan(func, Entry.KERNEL, judges)
    if registered.verdict == "composite" or (registered.verdict == "unknown" and not may_have_kernel(name, table)):
        plan = _follow(func, judges, table)
    if plan.entry is Entry.KERNEL and _depends_on_values(func):
        plan.entry = Entry.DATA_DEPENDENT
    return _finish(plan)


@functools.cache  # reading which torch is installed takes a millisecond
def _depends_on_values(func: Any) -> bool:
    """Whether its result does, or that of an operator which the installed torch makes it of (``repeat_interleave``)."""
    parts = load_compositions(installed_release()).calls.get(operator_name(func).removeprefix("aten::"), ())
    return any(
        torch.Tag.data_dependent_output in overload.tags or torch.Tag.dynamic_output_shape in overload.tags
        for overload in (func, *(overload_named(f"aten::{part}") for part in parts))
    )


def composite_key(func: Any) -> Any:
    return next((key for key in _COMPOSITE_KEYS if has_kernel(operator_name(func), key.name)), None)


def _follow(func: Any, judges: Judges, table: KernelTable) -> Plan:
    """An operator that the target release builds from others, or does not know: run what it is made of."""
    key = composite_key(func)
    if key is not None:
        view = func.is_view or torch.Tag.inplace_view in func.tags or func is _UNSAFE_VIEW
        return Plan(func, Entry.VIEW if view else Entry.COMPOSITE, judges, key)
    from torch._decomp import decomposition_table

    decomposition = decomposition_table.get(func)
    if judges.registered.verdict == "composite":
        reason = f"made of other operators in torch {table.release}, which the installed torch does not know"
        judges = judges.but_registered(Judgement("unknown", reason))
    entry = Entry.KERNEL if decomposition is None else Entry.DECOMPOSITION
    return Plan(func, entry, judges, decomposition=decomposition)


def _base(func: Any) -> int | None:
    if func is _UNSAFE_VIEW:
        return 0
    shared = [
        argument.alias_info is not None and not argument.alias_info.is_write for argument in func._schema.arguments
    ]
    return shared.index(True) if func.is_view and any(shared) else None


# Checks that hold for data with nothing special in it; `any` and comparisons are taken for False.
_TRUE_OF_GOOD_DATA = frozenset(["all", "_is_all_true"])
_COMPARISONS = {name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")}
_ASSUMED = _TRUE_OF_GOOD_DATA | _COMPARISONS.keys() | {"sum", "max", "copy_", "isnan", "scatter", "scatter_"}
# Of optimizers: the number may be another one in each step (`value=-step_size`).
_ARITHMETIC = frozenset(["add", "addcdiv", "addcmul", "div", "fill", "lerp", "mul", "sub"])


def _finish(plan: Plan) -> Plan:
    schema = plan.func._schema
    plan.run = REFERENCES.get(operator_name(plan.func), plan.func)
    plan.mutable = schema.is_mutable
    plan.inplace_view = torch.Tag.inplace_view in plan.func.tags
    plan.base = _base(plan.func)
    plan.takes_over = schema.name == "aten::set_"
    base = schema.name.removeprefix("aten::")
    plan.arithmetic = base.startswith("_fused_") or base.removeprefix("_foreach_").strip("_") in _ARITHMETIC
    plan.assume = functools.partial(_assume, base) if base in _ASSUMED else None
    written, sets, tensors, generators = [], [], [], []
    for position, argument in enumerate(schema.arguments):
        if isinstance(argument.type, torch.TensorType):
            tensors.append(position)
        elif "Generator" in str(argument.type):
            generators.append((position, argument.name))
        if argument.alias_info is not None and argument.alias_info.is_write:
            written.append((position, argument.name))
            sets.append(argument.alias_info.before_set)
    plan.tensor_positions, plan.generator_positions, plan.written = tuple(tensors), tuple(generators), tuple(written)
    returned: list[int | None] = []
    for result in schema.returns:
        alias = result.alias_info
        matches = [i for i, s in enumerate(sets) if alias is not None and alias.is_write and alias.before_set & s]
        returned.append(matches[0] if matches else None)
    plan.returned = tuple(returned)
    return plan


# What the values of a result are taken for where they are not known, because of the operator that made it.
# `assumed_truth` is what a truth value is taken for: checks of good data hold, and a count is compared as what it is.
# `assumed_count` is how many there are of what a program counts: each element of a mask, or of whole numbers, is one,
# but nothing is NaN. Where ones are scattered into zeros, as to choose experts, there are as many as were scattered: so
# the numbers of all experts make the whole.
def _assume(name: str, args: Any, result: Any) -> None:
    if name in _TRUE_OF_GOOD_DATA:
        result.assumed_truth = True
        return
    count, numel = getattr(args[0], "assumed_count", None), result.spec.numel
    if name in _COMPARISONS:
        if count is not None and isinstance(args[1], int | float):
            result.assumed_truth = _COMPARISONS[name](count, args[1])
    elif name == "sum":
        read = spec_of(args[0])
        each = Fraction(1) if count is None and not read.dtype.is_floating_point else count
        if each is not None and numel:
            result.assumed_count = each * read.numel / numel
    elif name == "isnan":
        result.assumed_count = Fraction(0)
    elif name in ("max", "copy_"):
        result.assumed_count = count if name == "max" else getattr(args[1], "assumed_count", None)
    elif len(args) == 4 and isinstance(args[3], int | float) and args[3] == 1 and numel:  # `scatter`, `scatter_`
        result.assumed_count = Fraction(spec_of(args[2]).numel, numel)
