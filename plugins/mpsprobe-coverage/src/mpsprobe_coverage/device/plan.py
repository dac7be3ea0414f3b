"""What happens to each operator on the target release: decided once, looked up at every call.

The rules are those of PyTorch's dispatcher for a backend key
(``aten/src/ATen/core/dispatch/OperatorEntry.cpp``, ``computeDispatchTableEntryWithDebug``): a kernel
registered for the key, else a composite kernel, else the backend fallback. They are applied to the
target release's registrations; the torch that is installed here only executes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

import torch
from torch._C import DispatchKey

from mpsprobe_coverage.device.cpu_fallback import without_kernel
from mpsprobe_coverage.device.keys import serving_key
from mpsprobe_coverage.device.references import REFERENCES
from mpsprobe_coverage.device.routing.renames import renames
from mpsprobe_coverage.kernels.backends import OVERRIDEABLE
from mpsprobe_coverage.kernels.table import KernelTable

if TYPE_CHECKING:
    from mpsprobe_coverage.advisories.model import Advisory
    from mpsprobe_coverage.device.refusals import Rule
    from mpsprobe_coverage.device.routing import Route

_COMPOSITE_KEYS = (
    DispatchKey.CompositeExplicitAutogradNonFunctional,
    DispatchKey.CompositeExplicitAutograd,
    DispatchKey.CompositeImplicitAutograd,
)
# Checks that hold for data with nothing special in it; `any` and comparisons are taken for False.
_TRUE_OF_GOOD_DATA = frozenset({"aten::all", "aten::_is_all_true"})
FALLBACK_REASON = "PyTorch registers it to run on the CPU, whatever the environment says"
ERROR_REASON = "registered to raise on MPS"
NO_TABLE_REASON = "an operator of a library that no kernel table covers"
NOT_WHOLE = "not in the kernel table, which does not hold every kernel of {label}"
RAISES_ELSEWHERE = "its composite kernel only raises: it is there for backends to override"
NOT_IN_RELEASE = "does not exist in torch {release}: the installed torch calls it where that release calls others"


class How(Enum):
    """How a call goes on after it has been intercepted."""

    KERNEL = auto()  # a leaf: judged, and run by its reference
    COMPOSITE = auto()  # run the composite kernel, whose own calls are judged
    VIEW = auto()  # a composite view: `as_strided` and its like, native in every release
    DECOMPOSE = auto()  # not in the target release: run a Python decomposition instead
    ROUTE = auto()  # C++ chooses by device type here: a route of ours chooses as it would on a Mac
    VALUES = auto()  # what comes out depends on values: needs shadows


@dataclass(slots=True, eq=False)
class Plan:
    """The decision for one overload. Compared by identity: it is a dictionary key at every call."""

    func: Any
    name: str
    how: How
    verdict: str
    reason: str | None
    composite_key: Any = None
    decomposition: Any = None
    route: Route | None = None
    mutable: bool = False
    inplace_view: bool = False
    written: tuple[tuple[int, str], ...] = ()  # (position, name) of each argument that is written
    returned: tuple[int | None, ...] = ()  # for each return: index into `written`, or None for a fresh one
    truth: bool | None = None  # what its unknown result is taken for as a truth value
    tensor_positions: tuple[int, ...] = ()  # arguments that are tensors in the schema
    run: Any = None  # what computes it without MPS: the overload itself, or a reference of ours
    rules: tuple[Rule, ...] = ()  # what its kernel may refuse
    watchers: tuple[Advisory, ...] = ()  # known wrong results of it in the target release


def operator_name(func: Any) -> str:
    """``aten::abs.out``; ``aten::abs`` for the default overload, as PyTorch's error messages print it."""
    name: str = func._schema.name
    overload = func._overloadname
    return name if overload == "default" else f"{name}.{overload}"


def make_plan(func: Any, tables: dict[str, KernelTable], routes: dict[str, Route], key: str | None = None) -> Plan:
    """Decide for ``func``; ``tables`` maps a namespace to the table that covers it.

    ``key`` is the dispatch key of the call's arguments where those are sparse.
    """
    name = operator_name(func)
    table = tables.get(func.namespace)
    if table is None:
        key = composite_key(func)
        if key is not None:
            return _finish(Plan(func, name, How.COMPOSITE, "composite", None, key))
        return _finish(Plan(func, name, How.KERNEL, "unknown", NO_TABLE_REASON))
    name = renames(table).get(name, name) if table.is_mps else name
    verdict, reason = judge(name, table, func, key)
    route = routes.get(name)
    if route is not None and not (route.only_without_kernel and verdict in ("native", "fallback")):
        return _finish(Plan(func, name, How.ROUTE, verdict, reason, composite_key(func), route=route))
    if verdict == "composite" or (verdict == "unknown" and not _may_have_kernel(name, table)):
        plan = _follow(func, name, table, verdict, reason)
        if plan.how is How.KERNEL and _depends_on_values(func):
            plan.how = How.VALUES
        return _finish(plan)
    if _depends_on_values(func):
        return _finish(Plan(func, name, How.VALUES, verdict, reason))
    return _finish(Plan(func, name, How.KERNEL, verdict, reason))


def _may_have_kernel(name: str, table: KernelTable) -> bool:
    """Whether an operator is unknown only because the table is not whole: then it is not followed any further."""
    return not table.whole and name in table.labels


def _depends_on_values(func: Any) -> bool:
    return torch.Tag.data_dependent_output in func.tags or torch.Tag.dynamic_output_shape in func.tags


def judge(name: str, table: KernelTable, func: Any, key: str | None = None) -> tuple[str, str | None]:
    """Verdict and reason for an operator by the registrations of ``table``'s release alone.

    Args:
        name: what the release calls the overload ``func``.
        key: the dispatch key that the call takes; by default the one that serves its dense arguments.
    """
    key = serving_key(name, table.backend.key) if key is None else key
    verdict = table.verdict(name, key)
    if verdict == "native" or verdict == "composite":
        return verdict, None
    if verdict == "fallback" and (table.is_mps or name in table.fallback):
        return verdict, FALLBACK_REASON
    if verdict == "unsupported":
        own = RAISES_ELSEWHERE if name in OVERRIDEABLE else f"registered to raise on {table.backend.label}"
        return verdict, ERROR_REASON if table.is_mps else own
    if verdict == "unknown" and _may_have_kernel(name, table):
        return verdict, _not_whole(table)
    if verdict == "unknown" and not table.is_mps and not name.startswith("aten::"):
        return verdict, NO_TABLE_REASON
    if verdict == "unknown":
        return verdict, NOT_IN_RELEASE.format(release=table.release)
    return without_kernel(func, name, table, key)


def _not_whole(table: KernelTable) -> str:
    return NOT_WHOLE.format(label=table.backend.label)


def composite_key(func: Any) -> Any:
    """The composite dispatch key that the installed torch has a kernel for, or None."""
    full = func._schema.name + ("" if func._overloadname == "default" else "." + func._overloadname)
    for key in _COMPOSITE_KEYS:
        if torch._C._dispatch_has_kernel_for_dispatch_key(full, key.name):
            return key
    return None


def _follow(func: Any, name: str, table: KernelTable, verdict: str, reason: str | None) -> Plan:
    """An operator that the target release builds from others, or does not know: run what it is made of."""
    key = composite_key(func)
    if key is not None:
        view = func.is_view or torch.Tag.inplace_view in func.tags
        return Plan(func, name, How.VIEW if view else How.COMPOSITE, "composite", None, key)
    from torch._decomp import decomposition_table

    decomposition = decomposition_table.get(func)
    if decomposition is not None:
        return Plan(func, name, How.DECOMPOSE, "composite", reason, decomposition=decomposition)
    if verdict == "composite":
        reason = f"made of other operators in torch {table.release}, in a way that the installed torch does not know"
    return Plan(func, name, How.KERNEL, "unknown", reason)


def _finish(plan: Plan) -> Plan:
    """Fill in what the schema says about writing and returning."""
    schema = plan.func._schema
    plan.run = REFERENCES.get(operator_name(plan.func), plan.func)
    plan.mutable = schema.is_mutable
    plan.inplace_view = torch.Tag.inplace_view in plan.func.tags
    if schema.name in _TRUE_OF_GOOD_DATA:
        plan.truth = True
    tensors = (i for i, a in enumerate(schema.arguments) if isinstance(a.type, torch.TensorType))
    plan.tensor_positions = tuple(tensors)
    written, sets = [], []
    for position, argument in enumerate(schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            written.append((position, argument.name))
            sets.append(argument.alias_info.before_set)
    plan.written = tuple(written)
    returned: list[int | None] = []
    for result in schema.returns:
        alias = result.alias_info
        matches = [i for i, s in enumerate(sets) if alias is not None and alias.is_write and alias.before_set & s]
        returned.append(matches[0] if matches else None)
    plan.returned = tuple(returned)
    return plan
