"""The dispatch mode: every operator call passes here, is judged, run without data, and recorded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from threading import get_ident
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch._C import DispatchKey
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from mpsprobe.doubts import GUESSED
from mpsprobe.suggestions import first_line
from mpsprobe_coverage.devices.virtual import cpu_calls
from mpsprobe_coverage.devices.virtual.cpu_calls import Elsewhere, OnTheCPU
from mpsprobe_coverage.devices.virtual.data_dependent import ONES_ASSUMPTION, DataDependent, filled, known_values_of
from mpsprobe_coverage.devices.virtual.execution import (
    MATERIALISE_LIMIT,
    Execution,
    Outcome,
    Outcomes,
    accepting_numbers,
    in_another_dtype,
    lacks_code,
    unit,
)
from mpsprobe_coverage.devices.virtual.mps_in_python import is_of_device
from mpsprobe_coverage.devices.virtual.tensor import (
    VirtualTensor,
    arrived,
    bare_call,
    bare_of,
    has_meta,
    known_values,
    layouts_seen,
    mapped,
    place_of,
    reshape_in_place,
    stands_for,
    takes_apart,
    undispatched,
    virtual_tensor,
    with_tensors,
)
from mpsprobe_coverage.knowledge.advisories.conditions import Answer
from mpsprobe_coverage.knowledge.calls.call import Call
from mpsprobe_coverage.knowledge.calls.keys import operator_name, sparse_key
from mpsprobe_coverage.knowledge.calls.spec import CPU, META, Specs, TensorSpec, spec_of, specs_in, tensors_in
from mpsprobe_coverage.knowledge.judging.chain import Chain
from mpsprobe_coverage.knowledge.judging.judgement import EVERYWHERE, Judgement, refused
from mpsprobe_coverage.recording.attribution import Attribution, Origin
from mpsprobe_coverage.recording.branches import Branches
from mpsprobe_coverage.recording.capturing import is_captured
from mpsprobe_coverage.recording.dispatch import Entry, Plan, Route
from mpsprobe_coverage.recording.planning import make_plan
from mpsprobe_coverage.recording.recorder import Recorder, Watching
from mpsprobe_coverage.recording.release_questions import asked

_WITH_TAGS = frozenset({"aten", "prims"})  # namespaces whose operators say when their output depends on values
_ENDS_THERE = ("missing", "unsupported")
_PRIM_DEVICE = torch.ops.prim.device.default
_TO_COPY = torch.ops.aten._to_copy.default
_COPY = torch.ops.aten.copy_.default
NOT_FOLLOWED = "it stops on the virtual device, though not on the CPU: {}"


class _Knowing:
    """What advisories ask of each call."""

    place = staticmethod(place_of)
    values = staticmethod(known_values_of)
    is_captured = staticmethod(is_captured)


class Interception(TorchDispatchMode):
    """One target release's judgement of whatever runs while this mode is on.

    It is the ``Dispatch`` that routes and data-dependent operators ask.
    """

    supports_higher_order_operators = True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # torch.compile never traces through here, and torch's guard against it costs more than a call does.
        return False

    def __init__(
        self,
        chain: Chain,
        routes: Mapping[str, Route],
        recorder: Recorder,
        attribution: Attribution,
        shadow_limit: int,
        outcomes: Outcomes,
    ) -> None:
        super().__init__()
        self.chain, self.table, self.backend = chain, chain.table, chain.table.backend
        self.recorder, self.attribution = recorder, attribution
        self.execution = Execution(shadow_limit, outcomes)
        self.data_dependent = DataDependent(self)
        self.on_the_cpu = OnTheCPU(self, recorder, attribution)
        self.elsewhere = Elsewhere(self, attribution)
        self._routes = routes
        self.release, self.compositions = asked(chain)
        self._watching = Watching(_Knowing(), chain.table, *(other.table for other in chain.others))
        self.plans: dict[Any, Plan] = {}  # by overload; for sparse arguments by overload and dispatch key
        self._judged: WeakKeyDictionary[Outcome, Judgement] = WeakKeyDictionary()
        self._decomposing: set[tuple[int, Plan]] = set()  # in which thread
        self._in_float32 = False
        self.passed_over: frozenset[str] = frozenset()  # PyTorch's own refusals at which a program does not end
        self.refusals: set[str] = set()  # those that operators raised, and that are findings
        self.sizes_of_cpu, self.other_sizes = False, ""
        self.branches: Branches | None = None

    @property
    def phase(self) -> str | None:
        return self.recorder.phase

    @property
    def shadow_limit(self) -> int:
        return self.execution.shadow_limit

    @contextmanager
    def muted(self) -> Iterator[None]:
        phase, self.recorder.phase = self.recorder.phase, None
        try:
            yield
        finally:
            self.recorder.phase = phase

    @contextmanager
    def in_float32(self) -> Iterator[None]:
        before, self._in_float32 = self._in_float32, True
        try:
            yield
        finally:
            self._in_float32 = before

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        # torch 2.6 names torch.Tensor here for a plain tensor's detach; later releases leave it out.
        virtual = VirtualTensor in types
        if len(types) != virtual and any(takes_apart(kind) for kind in types):
            return NotImplemented
        plan = self.plans.get(func)
        if plan is None:
            if not isinstance(func, torch._ops.OpOverload):
                return self._higher_order(func, args, kwargs)
            plan = self.plan_of(func)
        if "device" in kwargs:
            device = kwargs["device"]
            kwargs.pop("pin_memory", None)  # this build may have no memory to pin
            if device is not None:
                asked = device.type if isinstance(device, torch.device) else torch.device(device).type
                if asked == self.backend.device or asked == "meta":
                    # Composite kernels ask for the C++ device of their arguments, which says meta.
                    kwargs = dict(kwargs)
                    kwargs["device"] = META
                    if self._in_float32 and kwargs.get("dtype") is torch.float64:
                        kwargs["dtype"] = torch.float32
                    if func is _TO_COPY and not virtual:
                        moved = self.on_the_cpu.leaving(args[0], kwargs)
                        if moved is not None:
                            return moved
                elif virtual or has_meta(args, kwargs):
                    return self._leave(plan, args, kwargs)
                else:
                    return self.elsewhere.run(func, types, args, kwargs)
            elif not virtual:
                return self.elsewhere.run(func, types, args, kwargs)
        elif not virtual:
            if func is _PRIM_DEVICE or not has_meta(args, kwargs):
                return self.elsewhere.run(func, types, args, kwargs)
        elif func is _PRIM_DEVICE:
            return args[0].device
        return self.call(plan, args, kwargs)

    def composing(self, name: str) -> AbstractContextManager[None] | None:
        difference = self.compositions.difference(name)
        return None if difference is None else self.compositions.inside(difference)

    def call(self, plan: Plan, args: Any, kwargs: Any) -> Any:
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
        if plan.entry is not Entry.COMPOSITE:
            return self._go_on(plan, args, kwargs)
        try:
            result = self._go_on(plan, args, kwargs)
        except RuntimeError as error:
            return self.leaf(plan, args, kwargs, raised=first_line(error))
        if plan.composite_key is not DispatchKey.CompositeExplicitAutogradNonFunctional or plan.mutable:
            return result
        try:
            return self.execution.run(plan, args, kwargs)[0]
        except RuntimeError:
            return result

    def _go_on(self, plan: Plan, args: Any, kwargs: Any) -> Any:
        if plan.composition is None:
            return self._run(plan, args, kwargs)
        with self.compositions.inside(plan.composition):
            return self._run(plan, args, kwargs)

    def _run(self, plan: Plan, args: Any, kwargs: Any) -> Any:
        entry = plan.entry
        if entry is Entry.KERNEL:
            if plan.func.namespace in _WITH_TAGS:
                return self.leaf(plan, args, kwargs)
            return self._foreign(plan, args, kwargs)
        if entry is Entry.VIEW:
            return self._view(plan, args, kwargs)
        if entry is Entry.COMPOSITE:
            try:
                with self:
                    return accepting_numbers(partial(plan.func._op_dk, plan.composite_key), plan, args, kwargs)
            except RuntimeError as error:
                return self._composite_raised(plan, args, kwargs, error)
        if entry is Entry.ROUTE:
            assert plan.route is not None
            return plan.route.run(self, plan, args, kwargs)
        if entry is Entry.DATA_DEPENDENT:
            return self.data_dependent.call(plan, args, kwargs)
        decomposing = get_ident(), plan
        if decomposing in self._decomposing:  # what it is made of (a prim, run eagerly) is the operator itself
            return self.leaf(plan, args, kwargs)
        self._decomposing.add(decomposing)
        try:
            with self:
                return plan.decomposition(*args, **kwargs)
        finally:
            self._decomposing.discard(decomposing)

    def _composite_raised(self, plan: Plan, args: Any, kwargs: Any, error: RuntimeError) -> Any:
        """C++ that asks for the device type raised before it called an operator; a rule may say what MPS does there."""
        inputs = specs_in((args, kwargs))
        judgement = self.judge(plan, args, kwargs, inputs, ())
        if judgement.verdict == "composite":
            raise error
        if self.recorder.phase is not None:
            self._record(plan.name, judgement, inputs, ())
        self.refusals.add(first_line(error))
        try:
            return self.execution.run(plan, args, kwargs)[0]
        except Exception:  # noqa: BLE001 - what was raised first is what a Mac would say
            raise error from None

    def _foreign(self, plan: Plan, args: Any, kwargs: Any) -> Any:
        """A leaf of another library, which may not say that its output depends on values (``torchvision::nms``)."""
        try:
            return self.leaf(plan, args, kwargs)
        except (RuntimeError, NotImplementedError) as error:
            plan.entry = Entry.DATA_DEPENDENT
            try:
                return self.data_dependent.call(plan, args, kwargs)
            except Exception:  # noqa: BLE001 - what it said about shapes alone is the better answer
                raise error from None

    def leaf(self, plan: Plan, args: Any, kwargs: Any, raised: str | None = None) -> Any:
        asked = self._watching.decided(plan, args, kwargs) if plan.asks and self.recorder.phase is not None else ()
        try:
            result, inputs, outcome = self.execution.run(plan, args, kwargs)
        except Exception:
            if plan.registered.verdict in _ENDS_THERE:  # on a Mac too, but for another reason
                self.record(plan, args, kwargs, specs_in((args, kwargs)), ())
            raise
        if outcome.refused is not None:
            self._refused(plan, args, kwargs, tuple(inputs), outcome.flat, outcome.refused)
            return result
        if plan.assume is not None and type(result) is VirtualTensor:
            plan.assume(args, result)
        if self.recorder.phase is not None:
            judgement = self._judged.get(outcome)
            if judgement is None or raised is not None or judgement.source == "device":
                judgement = self.judge(plan, args, kwargs, tuple(inputs), outcome.flat, raised)
                if raised is None:  # an outcome stands for one operator, its specs and all other arguments
                    self._judged[outcome] = judgement
            if plan.watchers and judgement.verdict == "native":
                self._watch(plan, Call(plan.func, args, kwargs, tuple(inputs), outcome.flat), asked, outcome)
            self._record(plan.name, judgement, tuple(inputs), outcome.flat)
        return result

    def _watch(self, plan: Plan, call: Call, asked: tuple[Answer, ...], outcome: Outcome | None = None) -> None:
        for advisory, undecided in self._watching.matching(plan, call, self.recorder.phase or "", asked, outcome):
            self.recorder.advised(advisory, undecided, plan.name, self.attribution.current())

    def _refused(self, plan: Plan, args: Any, kwargs: Any, inputs: Specs, outputs: Specs, error: Exception) -> None:
        """What every device refuses is a finding, and raises as on a Mac, unless a run has ended by it before."""
        if self.recorder.phase is not None:
            judgement = self.judge(plan, args, kwargs, inputs, outputs)
            if judgement.verdict in ("native", "fallback"):
                judgement = refused(first_line(error), evidence=EVERYWHERE)._replace(asked=judgement.asked)
            self._record(plan.name, judgement, inputs, outputs)
        self.refusals.add(first_line(error))
        if first_line(error) not in self.passed_over:
            raise error.with_traceback(None)

    def judge(
        self, plan: Plan, args: Any, kwargs: Any, inputs: Specs, outputs: Specs, raised: str | None = None
    ) -> Judgement:
        generators = [kwargs.get(n, args[p] if p < len(args) else None) for p, n in plan.generator_positions]
        given = [is_of_device(generator) for generator in generators if generator is not None]
        call = Call(plan.func, args, kwargs, inputs, outputs, any(given), not all(given), raised)
        judgement = plan.judges.judge(call)
        if judgement.verdict != "native":
            self.recorder.example(plan.name, judgement, call)
        elif plan.keeps(inputs, outputs):
            plan.calls.append(bare_call(call))
        return judgement

    def plan_of(self, func: Any, key: str | None = None) -> Plan:
        """``key`` is the dispatch key of sparse arguments, which take no routes."""
        met = func if key is None else (func, key)
        plan = self.plans.get(met)
        if plan is None:
            plan = self.plans[met] = make_plan(func, self.chain, {} if key else self._routes, key)
            plan.key = key
            self.release.planned(plan, key)
            if key is None:
                self._watching.watch(plan)
                if plan.entry in (Entry.COMPOSITE, Entry.DECOMPOSITION):
                    plan.composition = self.compositions.difference(operator_name(func))
        return plan

    def record(self, plan: Plan, args: Any, kwargs: Any, inputs: Specs, outputs: Specs, watched: Any = None) -> None:
        """``watched``: what advisories see in place of ``args``."""
        if self.recorder.phase is not None:
            judgement = self.judge(plan, args, kwargs, inputs, outputs)
            if plan.watchers and judgement.verdict == "native":
                seen = args if watched is None else watched
                asked = self._watching.decided(plan, seen, kwargs)
                self._watch(plan, Call(plan.func, seen, kwargs, inputs, outputs), asked)
            self._record(plan.name, judgement, inputs, outputs)

    def _record(self, name: str, judgement: Judgement, inputs: Specs, outputs: Specs) -> None:
        origin = self.attribution.current()
        if judgement.verdict == "unknown" and self.table.whole:  # else it is a finding like any other, and likely
            self.recorder.unjudged(name, judgement.reason or "", origin)
        self.recorder.call(name, judgement, origin, inputs, outputs, self.compositions.mark(name))

    def record_transfer(
        self, tensor: torch.Tensor, dtype: torch.dtype | None = None, target: torch.Tensor | None = None
    ) -> None:
        spec, plan = spec_of(tensor), self.plan_of(_COPY)
        copied = bare_of(spec)  # the call is kept, and with it what it was called with
        watched = (arrived(tensor) if target is None else target, tensor)
        if dtype is None or dtype == spec.dtype:
            self.record(plan, (copied, copied), {}, (spec,), (spec,), watched)
            return
        result = TensorSpec(spec.shape, spec.stride, dtype, spec.layout, spec.form)
        with undispatched():  # of the right size, in the memory of one element
            on_cpu = torch.empty_strided(spec.shape, [0] * len(spec.shape), dtype=dtype, device=CPU)
        self.record(plan, (on_cpu, copied), {}, (result, spec), (result,), watched)

    def assumed(self, operator: str, text: str) -> None:
        self.recorder.assumed(operator, text, self.attribution.current())

    def guessed(self, operator: str, taken: Any) -> Any:
        origin = self.attribution.current()
        frame = self.attribution.frame() if self.branches is not None and isinstance(taken, bool) else None
        if self.branches is not None and frame is not None:
            taken = self.branches.answer(taken, frame, origin.module)
            origin = Origin(origin.module, frame.f_code.co_filename, frame.f_lineno)
        self.recorder.assumed(operator, f"{GUESSED}{taken}", origin)
        return taken

    def known_values(self, tensor: Any) -> torch.Tensor | None:
        return known_values(tensor)

    def known_or_assumed(self, tensor: torch.Tensor, operator: str, text: str, fill: Any) -> torch.Tensor:
        known = known_values_of(tensor)
        if known is not None:
            return known.clone()
        if fill == 0 and not self.elsewhere.data and tensor.numel() > cpu_calls.LARGE:
            return self.elsewhere.empty(spec_of(tensor))
        if self.recorder.phase is not None:
            self.assumed(operator, text)
        return filled(spec_of(tensor), fill)

    def _view(self, plan: Plan, args: Any, kwargs: Any) -> Any:
        """A view that is composite: on a Mac it ends in ``as_strided``, which every release has."""
        result, _, outcome = self.execution.run(plan, args, kwargs)
        if self.recorder.phase is not None:  # nothing is recorded; the origin is noted for the backward pass
            self.attribution.current()
        if plan.inplace_view and type(args[0]) is VirtualTensor and outcome.reshaped:
            reshape_in_place(args[0], outcome.reshaped[0][1])
        return result

    def _leave(self, plan: Plan, args: Any, kwargs: Any) -> Any:
        """``device=`` names another device: a copy to the CPU, or a factory that follows a virtual tensor."""
        if plan.func is _TO_COPY:
            source = args[0]
            copied = self.on_the_cpu.arriving(source, kwargs)
            if copied is not None:
                return copied
            count = getattr(source, "assumed_count", None) or 0
            real = self.known_or_assumed(source, "aten::_to_copy", ONES_ASSUMPTION if count else "zeros", fill=count)
            self.record_transfer(source, kwargs.get("dtype"))
            return plan.func(real, *args[1:], **kwargs)
        if plan.composite_key is not None:
            with self:
                return plan.func._op_dk(plan.composite_key, *args, **kwargs)
        # A leaf that makes something elsewhere from a virtual tensor's shape: its values do not matter.
        bare_args, bare_kwargs = tree_map(lambda v: v.spec.empty() if type(v) is VirtualTensor else v, (args, kwargs))
        return plan.func(*bare_args, **bare_kwargs)

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
        with self:
            return func.dispatch(DispatchKey.CompositeExplicitAutograd, *args, **kwargs)


# A run that goes on where an earlier one ended with PyTorch's own refusal. What every device refuses raises, because a
# program may catch it, and what it does then is what a Mac would do. Where nobody catches it, the scan runs the
# workload again and passes over that message: the call gets its verdict, and a result of the size that another dtype
# gives. Operators do so by themselves; here are functions that raise before they reach one, in C++ that is made of
# operators or in torch's Python.
class PassingOver(TorchFunctionMode):
    """While on, a function of torch that raises one of the interception's ``passed_over`` messages goes on."""

    def __init__(self, interception: Interception) -> None:
        super().__init__()
        self._interception = interception

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        try:
            return func(*args, **kwargs)
        except Exception as error:
            tensors = [t for t in tensors_in((args, kwargs)) if type(t) is VirtualTensor]
            if first_line(error) not in self._interception.passed_over or not tensors:
                raise
            if sum(spec_of(tensor).stored for tensor in tensors) > MATERIALISE_LIMIT:
                raise
            made = self._result_of_cpu(func, args, kwargs, first_line(error))
            if made is None:
                raise
            return made[0]

    def _result_of_cpu(self, func: Any, args: Any, kwargs: Any, message: str) -> tuple[Any] | None:
        """The result, from the CPU; None where no dtype helps: then the message is about the call."""
        args, kwargs = mapped(_elsewhere, (args, kwargs))
        on_zeros = with_tensors(lambda tensor: spec_of(tensor).filled(0), (args, kwargs))
        ran, holds_everywhere = None, False
        try:
            result = func(*on_zeros[0], **on_zeros[1])
        except Exception as error:  # noqa: BLE001 - whatever it is, it decides
            # Code that asks for the dtype above all operators is the same for every device.
            holds_everywhere = not lacks_code(error) or first_line(error) == message
            on_units = with_tensors(lambda tensor: unit(spec_of(tensor)), (args, kwargs))
            ran = in_another_dtype(func, *on_zeros) or in_another_dtype(func, *on_units)
            if ran is None:
                return None
            result = ran.result
        grad = torch.is_grad_enabled() and any(t.requires_grad for t in tensors_in((args, kwargs)))

        def virtual(value: torch.Tensor) -> torch.Tensor:
            if value.is_nested:
                return value
            if ran is not None and value.dtype is not ran.original(value.dtype):
                value = value.to(ran.original(value.dtype))
            with undispatched():
                return virtual_tensor(spec_of(value), None, grad and value.is_floating_point())

        made = with_tensors(virtual, result)
        if message not in self._interception.refusals:
            self._record(func, message, specs_in((args, kwargs)), specs_in(made), holds_everywhere)
        return (made,)

    def _record(self, func: Any, message: str, inputs: Any, outputs: Any, holds_everywhere: bool) -> None:
        recorder, origin = self._interception.recorder, self._interception.attribution.current()
        if recorder.phase is None:
            return
        name = getattr(func, "__name__", str(func))
        operator = f"aten::{name}" if hasattr(torch.ops.aten, name) else f"torch::{name}"
        if holds_everywhere:
            recorder.call(operator, refused(message, evidence=EVERYWHERE), origin, inputs, outputs)
        else:
            recorder.unjudged(operator, NOT_FOLLOWED.format(message), origin)


def _elsewhere(value: Any) -> Any:
    """The CPU in place of the device; another one, as of ``x.to("cuda")``, is refused as it is on a Mac."""
    return CPU if isinstance(value, torch.device) and value.type == stands_for.type else value
