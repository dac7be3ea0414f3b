"""The virtual MPS device as a context manager."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import chain
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from mpsprobe.errors import PluginError, UsageError
from mpsprobe.suggestions import first_line
from mpsprobe_coverage.devices.virtual.data_dependent import Found
from mpsprobe_coverage.devices.virtual.execution import Outcomes
from mpsprobe_coverage.devices.virtual.interception import Interception, PassingOver
from mpsprobe_coverage.devices.virtual.libraries import answering
from mpsprobe_coverage.devices.virtual.python_surface import device_in_python
from mpsprobe_coverage.devices.virtual.registrations import Casts, autocast_kernels, noting, registered
from mpsprobe_coverage.devices.virtual.tensor import MPS, VirtualTensor, stands_for
from mpsprobe_coverage.devices.virtual.wrapping import Construction, Wrapper
from mpsprobe_coverage.knowledge.calls.call import Calls
from mpsprobe_coverage.knowledge.calls.spec import FLOAT_SHADOW_COST, TensorSpec, spec_of
from mpsprobe_coverage.knowledge.judging.chain import Chain
from mpsprobe_coverage.knowledge.judging.judgement import Judgement
from mpsprobe_coverage.knowledge.kernels.live import has_mps_build
from mpsprobe_coverage.knowledge.kernels.table import KernelTable
from mpsprobe_coverage.knowledge.memory.inside_kernels import PREFILL_SINCE, is_prefill
from mpsprobe_coverage.knowledge.memory.lifetimes import Lifetimes
from mpsprobe_coverage.recording.attribution import Attribution, Origin
from mpsprobe_coverage.recording.branches import Branches
from mpsprobe_coverage.recording.recorder import Recorder
from mpsprobe_coverage.recording.release_questions import Asked, ending_gradients
from mpsprobe_coverage.recording.routing import autograd_routes, routes_for

SHADOW_LIMIT = 2**20
_SHADOW_LIMITS = {
    # Real moments of real biases would cost more than all the rest; a program reads single numbers here.
    "optimizer": FLOAT_SHADOW_COST,
    # Scores of a vocabulary decide how generation goes on; there is one row of them for each sequence.
    "sampling": 2**62,
}
MOVE = "move"  # the phase of what is put on the device before anything runs
ANOTHER = (
    "Leave the 'with' that opened it first; in a marked test or under mpsprobe run, use tensors on \"mps\", or judge "
    "this in another process."
)
_open: list[VirtualDevice] = []
_MADE_BY = "aten::empty.memory_format"  # where another MPS device is open (that of ``mpsprobe run``), it has a kernel


class VirtualDevice:
    """Runs models as an MPS device of one torch release would be asked to, without data and without a Mac.

    With the table of another backend it is a device of that one. Inside ``with``, tensors may be made on or moved to
    ``"mps"`` (``device``), and ``recorder`` has what was called while ``recorder.phase`` was set. Only one can be open
    at a time in a process: registrations in PyTorch's dispatcher are process-wide. The process is left as it was found,
    also after an exception.
    """

    _interception_type: type[Interception] = Interception

    def __init__(
        self,
        release: KernelTable | Chain,
        *,
        shadow_limit: int = SHADOW_LIMIT,  # elements of the largest tensor whose real values are kept (floats: a 64th)
        keep_weights: bool = False,  # parameters keep their real values, so that everything is computed for real
        data_on_cpu: bool = True,  # else tensors of the CPU with more than `cpu_calls.LARGE` elements have no data
        outcomes: Outcomes | None = None,  # of several devices with one dict: what operators return is worked out once
        passed_over: frozenset[str] = frozenset(),  # PyTorch's own refusals that do not end the program: `PassingOver`
        sizes_of_cpu: bool = False,  # results have the sizes that they have on the CPU, where MPS gives others
        recorder: Recorder | None = None,
        lifetimes: Lifetimes | None = None,  # gets begin and end of each storage on the device, and what made it
        found: Found = "ones",  # how many operators such as `nonzero` find where values are not known
        branches: Branches | None = None,  # what booleans are taken for that only values decide, by place
        answers: str | None = None,  # libraries are answered as by this release of torch, if not by the device's own
    ) -> None:
        self.chain = release if isinstance(release, Chain) else Chain(release)
        self.table = self.chain.table
        self.recorder = Recorder() if recorder is None else recorder
        self.recorder.lifetimes = self._lifetimes = lifetimes
        self.casts = Casts()
        self.attribution = Attribution()
        self.keep_weights = keep_weights
        limit = 2**62 if keep_weights else shadow_limit
        self._wrapper = Wrapper(limit, keep_weights)
        self._routes = routes_for(self.table)
        outcomes = {} if outcomes is None else outcomes
        self._interception = self._interception_type(
            self.chain, self._routes, self.recorder, self.attribution, limit, outcomes
        )
        self._interception.passed_over = passed_over
        self._interception.sizes_of_cpu = sizes_of_cpu
        self._interception.elsewhere.data = data_on_cpu
        self._interception.data_dependent.found = found
        self._interception.branches = branches
        if lifetimes is not None:
            newer = partial(self.asked.at_least, PREFILL_SINCE, for_memory=True)
            lifetimes.returns_twice = lambda operator, inputs: is_prefill(operator, inputs) and newer()
        self._shadow_limit = shadow_limit
        self._answers = answers or self.table.release
        self._exits = ExitStack()

    def construction(self) -> Construction:
        return Construction(self._shadow_limit, self.attribution, self.keep_weights, self.table.backend.device)

    def __enter__(self) -> VirtualDevice:
        in_cpp = not has_mps_build() and torch._C._dispatch_has_kernel_for_dispatch_key(_MADE_BY, "MPS")
        if _open or in_cpp:
            raise UsageError("a virtual MPS device is open in this process already", ANOTHER)
        device = device_of(self.table)
        with ExitStack() as exits:
            exits.callback(stands_for.become, MPS)
            stands_for.become(device, self._lifetimes)
            _open.append(self)
            exits.callback(_open.remove, self)
            # Real shadows draw random numbers; the program's own generator must not notice.
            exits.enter_context(torch.random.fork_rng(devices=[]))
            above = self._interception.compositions.above_autograd(self._routes)
            above |= ending_gradients(self.table, self.recorder, self.attribution)
            above |= self._interception.on_the_cpu.kernels()
            above |= autograd_routes(self._routes, self._interception)
            go_on, elsewhere = self._interception.compositions.above, self.asked.above_autograd()
            above |= noting(self.table, above, self._interception.plan_of, go_on, elsewhere)
            exits.enter_context(registered(self.chain.tables, above))
            exits.enter_context(autocast_kernels(self.table, self.casts))
            self._libraries = exits.enter_context(answering(self._answers))
            exits.enter_context(device_in_python(self._interception, self._libraries))
            exits.enter_context(self.attribution)
            exits.callback(self._interception.elsewhere.close)
            exits.enter_context(self._interception)
            exits.enter_context(followed_into_threads(self._interception))
            if self._interception.passed_over:
                exits.enter_context(PassingOver(self._interception))
            self._exits = exits.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        files = {call.origin.file for call in self.recorder.calls() if call.origin.file is not None}
        self.asked.of_libraries(self._libraries.asked(self.table.backend.device, files))
        self._exits.__exit__(*error)
        if self.casts.used:
            self._interception.release.autocast()

    @contextmanager
    def recording(self, phase: str) -> Iterator[None]:
        """Record the calls made inside under ``phase`` (``forward``, ``backward``, ``optimizer``, those of generation).

        Phases may be nested: ``prefill`` and ``decode`` lie in ``sampling``.
        """
        before = self.recorder.phase
        self.recorder.phase = self.recorder.last_phase = phase
        if self._lifetimes is not None:
            self._lifetimes.phase(phase)
        execution = self._interception.execution
        limit = execution.shadow_limit
        if not self.keep_weights:
            execution.shadow_limit = _SHADOW_LIMITS.get(phase, self._shadow_limit)
        try:
            yield
        finally:
            self._interception.on_the_cpu.record_gradients()
            self.recorder.phase = before
            if self._lifetimes is not None:
                self._lifetimes.phase(before)
            execution.shadow_limit = limit
            if before is None:
                self.casts.forget()

    def move(self, value: Any) -> Any:
        """``value`` on the device: a module (in place), or tensors nested in lists, mappings and dataclasses."""
        if isinstance(value, torch.nn.Module):
            self.attribution.name_modules(value)
            moved = self._wrapper.module(value)
            named = chain(moved.named_parameters(), moved.named_buffers())
            self._record_refused((name.rpartition(".")[0], tensor) for name, tensor in named)
            return moved
        moved = self._wrapper.nested(value)
        self._record_refused((None, leaf) for leaf in tree_leaves(moved) if isinstance(leaf, torch.Tensor))
        return moved

    @property
    def other_sizes(self) -> str:
        return self._interception.other_sizes

    def calls(self) -> Calls:
        """The calls that were judged native, one of each kind; what is made of others is there without any."""
        return {(plan.func, plan.key): plan.calls for plan in self._interception.plans.values()}

    @property
    def asked(self) -> Asked:
        return self._interception.release

    def _record_refused(self, tensors: Iterable[tuple[str | None, torch.Tensor]]) -> None:
        """Tensors whose copy is refused (a dtype, a sparse layout): on a Mac it is the move that raises."""
        plan, before = self._interception.plan_of(torch.ops.aten.copy_.default), self.recorder.phase
        judged: dict[TensorSpec, Judgement] = {}
        for module, tensor in tensors:
            if type(tensor) is not VirtualTensor:
                continue  # a lazy module's, or one that holds others
            spec = spec_of(tensor)
            if spec not in judged:
                judged[spec] = self._interception.judge(plan, (tensor, tensor), {}, (spec,), (spec,))
            if judged[spec].verdict == "unsupported":
                self.recorder.phase = MOVE
                self.recorder.call(plan.name, judged[spec], Origin(module, None, 0), (spec,), (spec,))
                self.recorder.phase = before


def device_now() -> VirtualDevice | None:
    return _open[-1] if _open else None


def device_of(table: KernelTable) -> torch.device:
    """The one that virtual tensors stand for; ``PluginError`` where the installed torch has no such device."""
    backend = table.backend
    try:
        device = torch.device(backend.device, 0)
        key: Any = torch._C._parse_dispatch_key(backend.key)
        inner = torch.empty(0, device="meta")
        tensor = torch.Tensor._make_subclass(torch.Tensor, inner, dispatch_device=False, device_for_backend_keys=device)
        if key is None or not torch._C._dispatch_keys(tensor).has(key):
            raise RuntimeError(f"tensors of {backend.device} have the keys {torch._C._dispatch_keys(tensor)}")
    except RuntimeError as error:
        what = f"the device type '{backend.device}' with the dispatch key '{backend.key}'"
        raise PluginError(
            f"torch {torch.__version__} has no {what}, which {table.family.owner} asks for: {first_line(error)[:200]}",
            "A backend of its own is called 'privateuseone' unless it has been renamed in this process.",
        ) from error
    return device


# A dispatch mode is on in one thread only, so each thread that a program starts while the device is open enters it.
# Python's own are meant (`DataLoader`'s, `ThreadPoolExecutor`'s). Those of autograd take the modes of the thread that
# called `backward` with them.
class _Following(TorchDispatchMode):
    """The device's mode in another thread; a mode remembers what was on before it, so each thread has its own."""

    supports_higher_order_operators = True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __init__(self, mode: TorchDispatchMode) -> None:
        super().__init__()
        self.mode: TorchDispatchMode | None = mode

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if self.mode is None:  # the device was closed, and the thread goes on
            return func(*args, **(kwargs or {}))
        return self.mode.__torch_dispatch__(func, types, args, kwargs)


@contextmanager
def followed_into_threads(mode: TorchDispatchMode) -> Iterator[None]:
    original, following = threading.Thread.start, set[_Following]()

    def start(thread: Any) -> None:
        run = thread.run

        def followed() -> None:
            own = _Following(mode)
            following.add(own)
            try:
                with own:
                    run()
            finally:
                following.discard(own)
                vars(thread).pop("run", None)

        thread.run = followed
        original(thread)

    threading.Thread.start = start  # type: ignore[assignment, method-assign]
    try:
        yield
    finally:
        threading.Thread.start = original  # type: ignore[method-assign]
        for own in following:
            own.mode = None
