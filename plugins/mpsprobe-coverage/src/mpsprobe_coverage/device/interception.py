"""The dispatch mode: every operator call passes here, is judged, run without data, and recorded."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch._C import DispatchKey
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from mpsprobe.suggestions import first_line
from mpsprobe_coverage.device.attribution import Attribution, Origin
from mpsprobe_coverage.device.cpu_fallback import GENERATOR, no_sparse, passes_generator
from mpsprobe_coverage.device.dtypes import DtypeRules
from mpsprobe_coverage.device.execution import Execution, Outcome, Outcomes, accepting_numbers
from mpsprobe_coverage.device.keys import sparse_key
from mpsprobe_coverage.device.plan import How, Plan, make_plan
from mpsprobe_coverage.device.recorder import Recorder
from mpsprobe_coverage.device.refusal import Refusal
from mpsprobe_coverage.device.refusals import Call, Rules
from mpsprobe_coverage.device.routing import Route
from mpsprobe_coverage.device.routing.others import other_copies
from mpsprobe_coverage.device.sparse import key_of
from mpsprobe_coverage.device.tensor import META, TensorSpec, VirtualTensor, layouts_seen, reshape_in_place, spec_of
from mpsprobe_coverage.device.values import Values
from mpsprobe_coverage.device.watching import Watching
from mpsprobe_coverage.kernels.table import MISSING, MPS_BACKEND, UNSUPPORTED, KernelTable

_WITH_TAGS = frozenset({"aten", "prims"})  # namespaces whose operators say when their output depends on values
_NO_GENERATOR = Refusal(GENERATOR, source="branch", evidence="check_generator in ATen/core/Generator.h")
_ENDS_THERE = (MISSING, UNSUPPORTED)
_PRIM_DEVICE = torch.ops.prim.device.default
_TO_COPY = torch.ops.aten._to_copy.default


class Interception(TorchDispatchMode):
    """One target release's judgement of whatever runs while this mode is on.

    Args:
        tables: namespace → the kernel table that covers it.
        routes: operator name → the route for it.
        recorder: what is told about each call; nothing is told while its ``phase`` is None.
        shadow_limit: largest tensor, in elements, whose real values are kept where they are known.
        outcomes: what ``Execution`` remembers.
        rules: operator name → what its kernel may refuse.
    """

    supports_higher_order_operators = True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # torch.compile never traces through here, and torch's guard against it costs more than a call does.
        return False

    def __init__(
        self,
        tables: dict[str, KernelTable],
        routes: dict[str, Route],
        recorder: Recorder,
        attribution: Attribution,
        shadow_limit: int,
        outcomes: Outcomes,
        rules: Rules,
    ) -> None:
        super().__init__()
        self.tables = tables
        self.backend = tables["aten"].backend
        self.recorder = recorder
        self.attribution = attribution
        self.execution = Execution(shadow_limit, outcomes)
        self.values = Values(self)
        self.dtypes = DtypeRules(tables["aten"])
        # Dtypes that factories are to use instead of those that C++ asks for: set by routes for their duration.
        self.factory_dtypes: dict[Any, Any] | None = None
        self._routes = routes
        self._rules = rules
        self._watching = Watching(tables["aten"])
        self._plans: dict[Any, Plan] = {}
        self._refused: dict[Outcome, str | None] = {}
        self._sparse_plans: dict[tuple[Any, str], Plan] = {}
        self._decomposing: set[Plan] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        # torch 2.6 names torch.Tensor here for a plain tensor's detach; later releases leave it out.
        virtual = VirtualTensor in types
        plan = self._plans.get(func)
        if plan is None:
            if not isinstance(func, torch._ops.OpOverload):
                return self._higher_order(func, args, kwargs)
            plan = self.plan_of(func)
        if "device" in kwargs:
            device = kwargs["device"]
            if device is not None:
                asked = device.type if isinstance(device, torch.device) else torch.device(device).type
                if asked == self.backend.device or asked == "meta":
                    # Composite kernels ask for the C++ device of their arguments, which says meta.
                    kwargs = dict(kwargs)
                    kwargs["device"] = META
                    if self.factory_dtypes is not None:
                        kwargs["dtype"] = self.factory_dtypes.get(kwargs.get("dtype"), kwargs.get("dtype"))
                    if kwargs.get("pin_memory"):
                        kwargs["pin_memory"] = False
                elif not virtual:
                    return func(*args, **kwargs)
                else:
                    return self._leave(plan, args, kwargs)
            elif not virtual:
                return func(*args, **kwargs)
        elif not virtual:
            if func is _PRIM_DEVICE or not _has_meta(args, kwargs):
                return func(*args, **kwargs)
        elif func is _PRIM_DEVICE:
            return args[0].device
        return self.call(plan, args, kwargs)

    def call(self, plan: Plan, args: Any, kwargs: Any) -> Any:
        """A call that belongs to the virtual device."""
        if layouts_seen:
            key = sparse_key((*args, *kwargs.values()), self.backend.key)
            if key is not None:
                return self._sparse(self.plan_of(plan.func, key), args, kwargs)
        return self._go_on(plan, args, kwargs)

    def _sparse(self, plan: Plan, args: Any, kwargs: Any) -> Any:
        """A call with sparse arguments: composite kernels may be for dense ones alone.

        Some raise. Those around structured kernels (``mm`` around ``mm.out``) make a result of the layout of their
        first argument; on a Mac it goes no further, and here with the layout that the CPU's own kernel gives.
        """
        if plan.how is not How.COMPOSITE:
            return self._go_on(plan, args, kwargs)
        try:
            made = self._go_on(plan, args, kwargs)
        except RuntimeError as error:
            refused = Refusal(no_sparse(self.backend), source="branch", evidence=first_line(error))
            return self.leaf(plan, args, kwargs, refused)
        if plan.composite_key is not DispatchKey.CompositeExplicitAutogradNonFunctional or plan.mutable:
            return made
        try:
            return self.execution.run(plan, args, kwargs)[0]
        except RuntimeError:
            return made

    def _go_on(self, plan: Plan, args: Any, kwargs: Any) -> Any:
        how = plan.how
        if how is How.KERNEL:
            if plan.func.namespace in _WITH_TAGS:
                return self.leaf(plan, args, kwargs)
            return self._foreign(plan, args, kwargs)
        if how is How.VIEW:
            return self._view(plan, args, kwargs)
        if how is How.COMPOSITE:
            with self:
                return accepting_numbers(partial(plan.func._op_dk, plan.composite_key), plan, args, kwargs)
        if how is How.ROUTE:
            assert plan.route is not None
            return plan.route.run(self, plan, args, kwargs)
        if how is How.VALUES:
            return self.values.call(plan, args, kwargs)
        if plan in self._decomposing:  # what it is made of (a prim, run eagerly) is the operator itself
            result, inputs, outcome = self.execution.run(plan, args, kwargs)
            if self.recorder.phase is not None:
                self.record(plan.name, "unknown", plan.reason, tuple(inputs), outcome.flat)
            return result
        self._decomposing.add(plan)
        try:
            with self:
                return plan.decomposition(*args, **kwargs)
        finally:
            self._decomposing.discard(plan)

    def _foreign(self, plan: Plan, args: Any, kwargs: Any) -> Any:
        """A leaf of another library, which may not say that its output depends on values (``torchvision::nms``)."""
        try:
            return self.leaf(plan, args, kwargs)
        except (RuntimeError, NotImplementedError) as error:
            plan.how = How.VALUES
            try:
                return self.values.call(plan, args, kwargs)
            except Exception:  # noqa: BLE001 - what it said of shapes alone is the better answer
                raise error from None

    def leaf(self, plan: Plan, args: Any, kwargs: Any, refused: str | None = None, verdict: str | None = None) -> Any:
        """Judge, run and record one operator that is not followed any further.

        A route overrules the registration: by ``refused``, what the kernel says when it raises, or by
        ``verdict``, where C++ has a way of its own to MPS.
        """
        try:
            result, inputs, outcome = self.execution.run(plan, args, kwargs)
        except Exception:
            if plan.verdict in _ENDS_THERE and self.recorder.phase is not None:  # on a Mac too, but for another reason
                specs = tuple(spec_of(v) for v in tree_leaves((args, kwargs)) if isinstance(v, torch.Tensor))
                self.record(plan.name, plan.verdict, plan.reason, specs, ())
            raise
        if plan.truth is not None and type(result) is VirtualTensor:
            result.truth = plan.truth
        if self.recorder.phase is not None:
            if outcome.caution is not None:
                self.recorder.unjudged(plan.name, outcome.caution, self.attribution.current())
            if refused is None and (plan.rules or (plan.verdict == MISSING and self.backend is MPS_BACKEND)):
                try:
                    refused = self._refused[outcome]
                except KeyError:  # an outcome stands for one operator, its specs and all other arguments
                    refused = self.refusal(plan, args, kwargs, tuple(inputs), outcome.flat)
                    self._refused[outcome] = refused
            if plan.watchers and refused is None:
                self._watch(plan, args, kwargs, tuple(inputs), outcome)
            if refused is not None:
                self.record(plan.name, "unsupported", refused, tuple(inputs), outcome.flat)
            elif verdict is not None:
                self.record(plan.name, verdict, None, tuple(inputs), outcome.flat)
            else:
                self.record(plan.name, plan.verdict, plan.reason, tuple(inputs), outcome.flat)
        return result

    @staticmethod
    def refusal(
        plan: Plan, args: Any, kwargs: Any, inputs: tuple[TensorSpec, ...], outputs: tuple[TensorSpec, ...]
    ) -> Refusal | None:
        """What the operator's kernel says to these arguments when it refuses them."""
        if plan.verdict != "native":  # without a kernel nothing refuses, and a fallback computes on the CPU
            return _NO_GENERATOR if plan.verdict == MISSING and passes_generator(args, kwargs) else None
        call = Call(plan.func, args, kwargs, inputs, outputs)
        for rule in plan.rules:
            refused = rule(call)
            if refused is not None:
                return refused
        return None

    def _watch(self, plan: Plan, args: Any, kwargs: Any, inputs: tuple[TensorSpec, ...], outcome: Outcome) -> None:
        """Tell the recorder of the advisories that a call is one for, where a kernel computes it."""
        phase = self.recorder.phase
        if phase is None or plan.verdict != "native":
            return
        found = self._watching.matching(plan, args, kwargs, inputs, outcome, phase)
        if found and self.dtypes.refusal(inputs, outcome.flat) is None:
            for advisory in found:
                self.recorder.advised(advisory, plan.name, self.attribution.current())

    def plan_of(self, func: Any, key: str | None = None) -> Plan:
        """The plan for an overload; ``key`` is the dispatch key of sparse arguments, which take no routes or rules."""
        if key is not None:
            sparse_plan = self._sparse_plans.get((func, key))
            if sparse_plan is None:
                sparse_plan = self._sparse_plans[func, key] = make_plan(func, self.tables, {}, key)
            return sparse_plan
        plan = self._plans.get(func)
        if plan is None:
            plan = self._plans[func] = make_plan(func, self.tables, self._routes)
            plan.rules = self._rules.get(plan.name, ())
            plan.watchers = self._watching.of(plan.name)
        return plan

    def record(
        self,
        name: str,
        verdict: str,
        reason: str | None,
        inputs: tuple[TensorSpec, ...],
        outputs: tuple[TensorSpec, ...],
    ) -> None:
        """Tell the recorder of one call; a dtype that the release refuses overrules the registration."""
        origin = self.attribution.current()
        refused = self.dtypes.refusal(inputs, outputs)
        if refused is not None:
            verdict, reason = "unsupported", refused
        if verdict == "unknown" and self.tables["aten"].whole:  # else it is a finding like any other, and likely
            self.recorder.unjudged(name, reason or "", origin)
        self.recorder.call(name, verdict, reason, origin, inputs, outputs)

    def origin(self) -> Origin:
        return self.attribution.current()

    def _view(self, plan: Plan, args: Any, kwargs: Any) -> Any:
        """A view that is composite: on a Mac it ends in ``as_strided``, which every release has.

        Nothing is recorded, as for every composite; the origin is noted for the backward pass.
        """
        result, _, outcome = self.execution.run(plan, args, kwargs)
        if self.recorder.phase is not None:
            self.attribution.current()
        if plan.inplace_view and type(args[0]) is VirtualTensor and outcome.reshaped:
            reshape_in_place(args[0], outcome.reshaped[0][1])
        return result

    def _leave(self, plan: Plan, args: Any, kwargs: Any) -> Any:
        """``device=`` names another device: a copy to the CPU, or a factory that follows a virtual tensor."""
        if plan.func is _TO_COPY:
            source = args[0]
            real = self.values.known_or_assumed(source, "aten::_to_copy", "zeros", fill=0)
            self.record_transfer(spec_of(source))
            return plan.func(real, *args[1:], **kwargs)
        if plan.composite_key is not None:
            with self:
                return plan.func._op_dk(plan.composite_key, *args, **kwargs)
        # A leaf that makes something elsewhere from a virtual tensor's shape: its values do not matter.
        bare_args, bare_kwargs = tree_map(lambda v: v.spec.empty() if type(v) is VirtualTensor else v, (args, kwargs))
        return plan.func(*bare_args, **bare_kwargs)

    def record_transfer(self, spec: TensorSpec) -> None:
        """A copy between the CPU and the device: ``copy_`` in PyTorch's own terms.

        A sparse tensor is made anew there from its parts; that needs the sparse key of its layout in the release.
        """
        if self.recorder.phase is None:
            return
        name, verdict, reason = "aten::copy_", "native", None
        table = self.tables["aten"]
        if not table.is_mps:
            name, verdict, reason = other_copies(table)
        elif spec.layout is not torch.strided and not table.keys.get(key_of(spec.layout, self.backend.key)):
            verdict, reason = "unsupported", no_sparse(self.backend)
        self.record(name, verdict, reason, (spec,), (spec,))

    def _higher_order(self, func: Any, args: Any, kwargs: Any) -> Any:
        """``cond``, ``flex_attention`` and their like: run with real operators inside, where they can be."""
        if func is torch.ops.higher_order.cond:  # its eager form refuses to run under a mode
            predicate, if_true, if_false, operands = args
            with self:
                return (if_true if bool(predicate) else if_false)(*operands)
        self.recorder.unjudged(
            f"higher_order::{getattr(func, 'name', lambda: str(func))()}",
            "a higher-order operator; what it is made of is judged where it can be run eagerly",
            self.attribution.current(),
        )
        key = torch._C.DispatchKey.CompositeExplicitAutograd
        with self:
            return func.dispatch(key, *args, **kwargs)


def _has_meta(args: Any, kwargs: Any) -> bool:
    """Whether a plain meta tensor is among the arguments: made by C++ that asked a virtual tensor for its device."""
    for value in (*args, *kwargs.values()):
        if isinstance(value, torch.Tensor):
            if value.is_meta:
                return True
        elif isinstance(value, (list, tuple)):
            for item in value:
                if isinstance(item, torch.Tensor) and item.is_meta:
                    return True
    return False
