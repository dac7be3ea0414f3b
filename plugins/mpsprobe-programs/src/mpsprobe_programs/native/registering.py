"""What the target release registers for MPS, in the dispatcher of the torch that is installed here.

Each operator gets one kernel, the CPU's over the memory of the device's tensors (``kernel.cpp``). Operators that only
MPS has get a kernel for the CPU, of other operators. Where C++ asks ``#ifdef USE_MPS``, a route chooses as on a Mac.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

import torch

from mpsprobe_coverage.calls.keys import has_kernel, operator_name
from mpsprobe_coverage.device.dispatch import Dispatch, Plan
from mpsprobe_coverage.device.planning import make_plan
from mpsprobe_coverage.device.references import REFERENCES
from mpsprobe_coverage.device.routing import attention, autograd_routes, convolution, recurrent
from mpsprobe_coverage.judging.chain import Chain
from mpsprobe_coverage.kernels.table import COMPOSITE_LABELS, KernelTable

# Key of the device → that of the CPU's kernels.
KEYS = {"MPS": "CPU", "SparseMPS": "SparseCPU", "SparseCsrMPS": "SparseCsrCPU"}
DERIVATIVE = "derivative of "  # in the names of operators: that of a registered fallback, which runs on the CPU too
_COPY = "aten::copy_"  # `copy_impl` in native/Copy.cpp asks for the device type, inside `#ifdef USE_MPS`
_IFDEF = (attention, convolution, recurrent)


class Routed:
    """The ``Dispatch`` that routes ask: what they call goes to the dispatcher, which records it."""

    def __init__(self, chain: Chain) -> None:
        self.chain = chain
        self.table = chain.table
        self._plans: dict[Any, Plan] = {}

    def __enter__(self) -> None:
        """Everything is dispatched anyway."""

    def __exit__(self, *error: Any) -> None:
        """Nothing was changed."""

    def plan_of(self, func: Any) -> Plan:
        """The plan for an overload."""
        plan = self._plans.get(func)
        if plan is None:
            plan = self._plans[func] = make_plan(func, self.chain, {})
        return plan

    def leaf(self, plan: Plan, args: Any, kwargs: Any, raised: str | None = None) -> Any:
        """Call it."""
        del raised
        return plan.func(*args, **kwargs)

    def composing(self, name: str) -> AbstractContextManager[None] | None:
        """Not followed here."""
        return None

    def muted(self) -> AbstractContextManager[None]:
        """Routes that compute something for themselves are not among those here."""
        return nullcontext()


@contextmanager
def registered(chain: Chain) -> Iterator[list[str]]:
    """Register everything; the operators, each at the position that its calls are reported by."""
    operators: list[str] = []
    dispatch: Any = Routed(chain)
    libraries = []

    def register(names: Iterable[str], key: str, fallback: bool) -> None:
        chosen = sorted(names)
        torch.ops.mpsprobe.register_kernels(chosen, key, len(operators), fallback)
        operators.extend(chosen)
        operators.extend(f"{DERIVATIVE}{name}" for name in chosen if fallback)

    try:
        routes = {route.operator: route for module in _IFDEF for route in module.routes(chain.table)}
        below = torch.library.Library("aten", "IMPL", "MPS")
        libraries.append(below)
        for name, route in routes.items():
            if route.above_autograd is None and not _stays(route, chain.table):
                below.impl(name.removeprefix("aten::"), partial(_run, route, dispatch, name))
        above = torch.library.Library("aten", "IMPL", "AutogradMPS")
        libraries.append(above)
        for name, function in autograd_routes(routes, dispatch).items():
            above.impl(name.removeprefix("aten::"), function)
        computing = torch.library.Library("aten", "IMPL", "CPU")
        libraries.append(computing)
        for name, function in REFERENCES.items():
            if torch._C._dispatch_has_kernel(name) and not has_kernel(name, "CPU"):
                computing.impl(name.removeprefix("aten::"), function)
        installed = torch._C._dispatch_get_all_op_names()
        for key, of_cpu in KEYS.items():
            fallback, leaves = [], []
            for name in installed:
                table = chain.tables.get(name.partition("::")[0])
                if table is None or name in routes or has_kernel(name, key):
                    continue
                verdict = table.verdict(name, key)
                if name == _COPY and key == "MPS":
                    leaves.append(name)
                elif verdict == "fallback":
                    fallback.append(name)
                elif verdict == "native" or (has_kernel(name, of_cpu) and not _is_composite(name)):
                    leaves.append(name)
            register(fallback, key, True)
            register(leaves, key, False)
        yield operators
    finally:
        torch.ops.mpsprobe.unregister_kernels()
        for library in libraries:
            library._destroy()


def _is_composite(name: str) -> bool:
    return any(has_kernel(name, key) for key in COMPOSITE_LABELS)


def _stays(route: Any, table: KernelTable) -> bool:
    return route.only_without_kernel and table.verdict(route.operator) in ("native", "fallback")


def _run(route: Any, dispatch: Dispatch, name: str, *args: Any, **kwargs: Any) -> Any:
    namespace, _, operator = name.partition("::")
    packet, _, overload = operator.partition(".")
    func = getattr(getattr(getattr(torch.ops, namespace), packet), overload or "default")
    assert operator_name(func) == name
    return route.run(dispatch, dispatch.plan_of(func), args, kwargs)
