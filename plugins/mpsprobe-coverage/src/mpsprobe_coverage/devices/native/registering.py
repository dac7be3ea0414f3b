"""What the target release registers for MPS, in the dispatcher of the torch that is installed here.

Each operator gets one kernel, the CPU's over the memory of the device's tensors (``kernel.cpp``). Operators that only
MPS has get a kernel for the CPU, of other operators. C++ asks for the device type itself and gets the true answer; a
route chooses where that does not help: inside ``#ifdef USE_MPS``, and where another release does otherwise than the
installed one. An operator that the release does not have, or composes in a way that the installed torch does not know,
is taken apart by PyTorch's decompositions.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, Protocol

import torch
from torch._C import DispatchKey

from mpsprobe_coverage.devices.native.wrong import Wrong
from mpsprobe_coverage.knowledge.calls.keys import has_cpu_kernel, has_kernel, operator_name, overload_named
from mpsprobe_coverage.knowledge.calls.spec import Specs
from mpsprobe_coverage.knowledge.judging.chain import Chain
from mpsprobe_coverage.knowledge.judging.renames import renames
from mpsprobe_coverage.knowledge.kernels.backends import OVERRIDEABLE
from mpsprobe_coverage.knowledge.kernels.releases import installed_release
from mpsprobe_coverage.knowledge.kernels.table import (
    COMPOSITE_LABELS,
    FALLBACK,
    MISSING,
    MPS,
    NATIVE,
    UNSUPPORTED,
    KernelTable,
)
from mpsprobe_coverage.recording import references
from mpsprobe_coverage.recording.attribution import Attribution
from mpsprobe_coverage.recording.dispatch import Dispatch, Entry, Plan, Route, in_dispatcher
from mpsprobe_coverage.recording.phases import phase_now
from mpsprobe_coverage.recording.planning import make_plan
from mpsprobe_coverage.recording.recorder import Recorder
from mpsprobe_coverage.recording.release_questions import Asked, Composing, ending_gradients, now_composite
from mpsprobe_coverage.recording.routing import autograd_routes, compiled_with_mps, other_releases

# Key of the device → that of the CPU's kernels.
KEYS = {MPS: "CPU", "SparseMPS": "SparseCPU", "SparseCsrMPS": "SparseCsrCPU"}
DERIVATIVE = "derivative of "  # in the names of operators: that of a registered fallback, which runs on the CPU too
_COPY = "aten::copy_"  # `copy_impl` in native/Copy.cpp asks for the device type, inside `#ifdef USE_MPS`
# No tensor has this key; the kernels of operators that have a route wait there until the route wants them.
LEAVES = "VE"
_aten = torch.ops.aten
_BACKWARD = "aten::convolution_backward"
_MOST_DRAWS = 4096
_last = threading.local()
# Address of what `_lstm_mps` keeps for its derivative → the state from which its dropout was drawn.
_draws: OrderedDict[int, torch.Tensor] = OrderedDict()


# What the CPU computes for operators that only MPS has, so that a program prints the same as on the CPU: the references
# of the virtual device in Python, and where those have shapes only, or sum in another order than the CPU, values.
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


def _convolution_backward(*arguments: Any) -> Any:
    """Gradients of input and weight. That of the bias is remembered: MPS sums it elsewhere, in another order."""
    first, second, _last.bias = references.convolution_backward(*arguments, bias=True)
    return first, second, None


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
    "aten::mps_convolution_transpose_backward": lambda *arguments: _convolution_backward(*arguments)[:2],
}


class Records(Protocol):
    recorder: Recorder

    def record(self, plan: Plan, args: Any, kwargs: Any, inputs: Specs, outputs: Specs) -> None: ...


class Routed:
    """The ``Dispatch`` of the native device: calls of routes go to the dispatcher, which records them."""

    sizes_of_cpu, other_sizes = False, ""  # what runs here has the sizes of its values

    def __init__(self, chain: Chain, attribution: Attribution, routed: frozenset[str]) -> None:
        self.chain, self.table, self.attribution, self._routed = chain, chain.table, attribution, routed
        self.release = Asked(chain)
        self.recording: Records | None = None  # while the device is open
        self._plans: dict[tuple[Any, str | None], Plan] = {}
        self._decomposing: set[Plan] = set()

    def __enter__(self) -> None:
        """Everything is dispatched anyway."""

    def __exit__(self, *error: Any) -> None:
        """Nothing was changed."""

    @property
    def phase(self) -> str | None:
        return None if self.recording is None else phase_now()

    @property
    def gradients_end(self) -> dict[str, Any]:
        return {} if self.recording is None else self.recording.recorder.gradients_end

    def run(self, route: Route, *args: Any, **kwargs: Any) -> Any:
        plan = self.plan_of(overload_named(route.operator))
        dispatch: Any = self  # routes for other targets ask for more, which values make needless
        if plan in self._decomposing:
            return self.leaf(plan, args, kwargs)
        if plan.decomposition is None:
            return route.run(dispatch, plan, args, kwargs)
        self._decomposing.add(plan)
        try:
            return route.run(dispatch, plan, args, kwargs)
        finally:
            self._decomposing.discard(plan)

    def plan_of(self, func: Any, key: str | None = None) -> Plan:
        plan = self._plans.get((func, key))
        if plan is None:
            plan = self._plans[func, key] = make_plan(func, self.chain, {}, key)
        return plan

    def leaf(self, plan: Plan, args: Any, kwargs: Any, raised: str | None = None) -> Any:
        if operator_name(plan.func) in self._routed or plan.decomposition is not None:
            return _leaf(plan.func, *args, **kwargs)
        return plan.func(*args, **kwargs)

    def record(self, plan: Plan, args: Any, kwargs: Any, inputs: Specs, outputs: Specs) -> None:
        if self.recording is not None:
            self.recording.record(plan, args, kwargs, inputs, outputs)

    @contextmanager
    def muted(self) -> Iterator[None]:
        before = torch.ops.mpsprobe.mute(True)
        try:
            yield
        finally:
            torch.ops.mpsprobe.mute(before)


def _leaf(func: Any, *args: Any, **kwargs: Any) -> Any:
    return func._op_dk(getattr(DispatchKey, LEAVES), *args, **kwargs)


class Registered(NamedTuple):
    operators: list[str]  # each at the position that its calls are reported by
    dispatch: Routed
    compositions: Composing  # what the release composes otherwise than the installed torch


@contextmanager
def registered(chain: Chain, attribution: Attribution, wrong: Wrong | None = None) -> Iterator[Registered]:
    """``wrong``: has other kernels for some operators, which call those that are right."""
    table, compositions = chain.table, Composing(chain.table)
    routes = with_values_of_the_cpu(_routes(table))
    dispatch: Any = Routed(chain, attribution, frozenset(routes))
    operators: list[str] = []

    def in_cpp(key: str, names: list[str], *, fallback: bool = False) -> None:
        torch.ops.mpsprobe.register_kernels(names, key, len(operators), fallback)
        operators.extend(names)
        operators.extend(f"{DERIVATIVE}{name}" for name in names if fallback)

    with in_dispatcher() as in_python, ExitStack() as exits:
        exits.callback(torch.ops.mpsprobe.unregister_kernels)
        above = compositions.above_autograd(routes)
        above |= ending_gradients(table, dispatch, dispatch.attribution)
        above |= autograd_routes(routes, dispatch)
        in_python(f"Autograd{MPS}", {name: run for name, run in above.items() if _is_known(name)})
        needed = [name for name in REFERENCES if _is_known(name) and (name in OVERRIDEABLE or not has_cpu_kernel(name))]
        in_python("CPU", {name: REFERENCES[name] for name in needed})
        chosen = _chosen(chain, routes, dispatch)
        below = compositions.below_autograd({*routes, *chosen.leaves, *chosen.fallbacks, *chosen.apart})
        below |= {name: partial(dispatch.run, route) for name, route in (routes | chosen.apart).items()}
        leaves = {name: partial(_leaf, overload_named(name)) for name in chosen.leaves} if wrong else {}
        others = wrong.kernels({**leaves, **below}) if wrong else {}
        in_python(MPS, below | others)
        in_cpp(MPS, chosen.fallbacks, fallback=True)
        in_cpp(MPS, [name for name in chosen.leaves if name not in others])
        waiting = (*routes, *chosen.apart, *(name for name in chosen.leaves if name in others))
        in_cpp(LEAVES, [name for name in waiting if has_cpu_kernel(name)])
        for key in [*KEYS][1:]:
            if torch._C._parse_dispatch_key(key) is not None:  # 2.6 has no name for those of sparse tensors
                in_cpp(key, _sparse(chain, key))
        torch.ops.mpsprobe.register_late(MPS, len(operators))
        yield Registered(operators, dispatch, compositions)


class _Chosen(NamedTuple):
    """Operators by what stands for them under the key MPS; those in none are followed by the dispatcher."""

    leaves: list[str]  # recorded, and computed by the CPU
    fallbacks: list[str]
    apart: dict[str, Route]  # those that are taken apart by a decomposition


def _chosen(chain: Chain, routes: Mapping[str, Route], dispatch: Routed) -> _Chosen:
    chosen, renamed = _Chosen([], [], {}), renames(chain.table)
    left_out = now_composite(chain.table)
    for name in sorted(torch._C._dispatch_get_all_op_names()):
        table = chain.tables.get(name.partition("::")[0])
        if table is None or name in routes or name in left_out or has_kernel(name, MPS):
            continue
        verdict = table.verdict(name, MPS)
        if verdict == FALLBACK:
            chosen.fallbacks.append(name)
        elif verdict in (NATIVE, UNSUPPORTED, MISSING) or name in renamed or name == _COPY:
            chosen.leaves.append(name)
        elif has_kernel(name, "CPU") and not _is_composite(name):
            plan = dispatch.plan_of(overload_named(name))
            if plan.entry is Entry.DECOMPOSITION:
                chosen.apart[name] = Route(name, lambda _, plan, args, kwargs: plan.decomposition(*args, **kwargs))
            else:
                chosen.leaves.append(name)
    return chosen


def _sparse(chain: Chain, key: str) -> list[str]:
    names = []
    for name in sorted(torch._C._dispatch_get_all_op_names()):
        table = chain.tables.get(name.partition("::")[0])
        if table is not None and not has_kernel(name, key):
            computed = has_kernel(name, KEYS[key])
            names += [name] if computed or table.verdict(name, key) == NATIVE else []
    return names


def _routes(table: KernelTable) -> dict[str, Route]:
    routes = compiled_with_mps.routes(table)
    if table.release.rpartition(".")[0] != installed_release().rpartition(".")[0]:
        routes += other_releases.routes(table)
    kernels = NATIVE, FALLBACK
    return {
        route.operator: route
        for route in routes
        if _is_known(route.operator) and not (route.only_without_kernel and table.verdict(route.operator) in kernels)
    }


def _is_known(name: str) -> bool:
    return bool(torch._C._dispatch_has_kernel(name))


def _is_composite(name: str) -> bool:
    return any(has_kernel(name, key) for key in COMPOSITE_LABELS)
