"""One step of a workload under ``torch.compile``, on the native device, without values or with them.

Without, tensors are PyTorch's fake ones on ``mps``. Below autograd they are dispatched as on a Mac, because the native
device is registered for MPS: so TorchDynamo, AOTAutograd and Inductor come to the graphs that they come to there. What
Inductor generates is run with fake tensors too: its wrapper calls operators, which are judged, and kernels, which are
counted. With values, the tensors are those of the native device, and the kernels run and are compared, as in a program.
"""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import torch
from torch._guards import TracingContext
from torch._inductor import compile_fx
from torch._subclasses import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from mpsprobe.errors import WorkloadError
from mpsprobe.protocols import RunOptions, TorchRun, Workload
from mpsprobe.schemas import (
    AdvisoryMatch,
    CompiledStep,
    RunFailure,
    StepCost,
)
from mpsprobe_coverage.devices.native.device import NativeDevice
from mpsprobe_coverage.devices.native.inductor import (
    Generated,
    Kernel,
    is_generated,
    line_of_call,
)
from mpsprobe_coverage.devices.virtual.mps_in_python import replacing
from mpsprobe_coverage.devices.virtual.restoring import as_before
from mpsprobe_coverage.devices.virtual.wrapping import NotStrided, Wrapper
from mpsprobe_coverage.knowledge.calls.call import Call
from mpsprobe_coverage.knowledge.calls.keys import operator_name
from mpsprobe_coverage.knowledge.calls.spec import specs_in, tensors_in
from mpsprobe_coverage.knowledge.chips.store import machine_named
from mpsprobe_coverage.knowledge.kernels.table import KernelTable
from mpsprobe_coverage.knowledge.times.costs import Cost, gathers
from mpsprobe_coverage.knowledge.times.model import Call as TimedCall
from mpsprobe_coverage.knowledge.times.model import estimate
from mpsprobe_coverage.recording.attribution import Origin
from mpsprobe_coverage.recording.capturing import KnownByMemory, captured
from mpsprobe_coverage.recording.dispatch import Entry, Plan
from mpsprobe_coverage.recording.phases import FORWARD, ProgramRecorder, optimizers_followed, phase_now
from mpsprobe_coverage.recording.recorder import Watching
from mpsprobe_coverage.recording.references import REFERENCES
from mpsprobe_coverage.reporting.attempts import Attempt
from mpsprobe_coverage.reporting.compiled import Launched, made, recompilations
from mpsprobe_coverage.reporting.findings import advisory_matches, findings
from mpsprobe_coverage.reporting.works import calls_of, works_of
from mpsprobe_coverage.scanning import images
from mpsprobe_coverage.scanning.process_state import same_numbers
from mpsprobe_coverage.scanning.step import ReleaseStep
from mpsprobe_coverage.scanning.tracing import built, chain_for
from mpsprobe_coverage.scanning.vary import Vary
from mpsprobe_coverage.verifying import runs
from mpsprobe_coverage.verifying.kernels import Kernels

_NO_WORK = ("empty", "new_empty", "_unsafe_view", "_reshape_alias", "lift_fresh", "detach")
UNCOUNTED = "prim"


class _Calls(TorchDispatchMode):
    """Judges each call that a step makes on the device, but for those that compiling makes."""

    def __init__(self, device: NativeDevice, *, values: bool) -> None:
        super().__init__()
        self.recorder, self.launched = ProgramRecorder(), Launched()
        assert device.generated is not None, "a device that has a shader generates"
        self._chain, self._attribution, self._generated = device.chain, device.attribution, device.generated
        self.recorder.phase = FORWARD  # of this thread: a new recorder mutes it
        self._plans: dict[Any, Plan] = {}
        self._watching = Watching(KnownByMemory() if values else _Knowing(), device.chain.table)
        self._references = {} if values else REFERENCES  # in place of what meta refuses, and MPS takes

    @classmethod
    def is_infra_mode(cls) -> bool:
        return True  # else TorchDynamo would compile nothing below it

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if TracingContext.try_get() is not None or torch.compiler.is_compiling() or func.namespace == UNCOUNTED:
            return func(*args, **kwargs)
        inputs = specs_in((args, kwargs))
        on_device = any(tensor.device.type == "mps" for tensor in tensors_in((args, kwargs)))
        result = (self._references.get(operator_name(func), func) if on_device else func)(*args, **kwargs)
        if on_device or any(tensor.device.type == "mps" for tensor in tensors_in(result)):
            self._record(func, args, kwargs, inputs, result)
        return result

    def _record(self, func: Any, args: Any, kwargs: Any, inputs: Any, result: Any) -> None:
        plan = self._plans.get(func)
        if plan is None:
            plan = self._plans[func] = Plan(func, Entry.KERNEL, self._chain.judges_of(func))
            self._watching.watch(plan)
        outputs = specs_in(result)
        call = Call(func, tuple(args), kwargs, inputs, outputs)
        judgement, origin = plan.judges.judge(call), self._origin()
        self.recorder.call(plan.name, judgement, origin, inputs, outputs)
        if judgement.verdict != "native":
            self.recorder.example(plan.name, judgement, call)
        if judgement.verdict == "unknown":
            self.recorder.unjudged(plan.name, judgement.reason or "", origin)
        if plan.watchers:
            answers = self._watching.decided(plan, args, kwargs)
            for advisory, undecided in self._watching.matching(plan, call, phase_now(), answers):
                self.recorder.advised(advisory, undecided, plan.name, origin)
        if not (func.is_view or func._schema.name.partition("::")[2].startswith(_NO_WORK)):
            self.launched.add(args, tuple(kwargs.values()), result)

    def _origin(self) -> Origin:
        frame: Any = sys._getframe(1)
        while frame is not None:
            file = frame.f_code.co_filename
            if is_generated(file):
                line = line_of_call(linecache.getlines(file), frame.f_lineno, self._generated.lines)
                return Origin(None, *(line or (None, 0)))
            frame = frame.f_back
        return self._attribution.current()


class _Knowing(KnownByMemory):
    """What advisories ask of each call: without values."""

    def values(self, _tensor: torch.Tensor) -> None:
        return None


class _Fakes(Wrapper):
    """Fake tensors on the device in place of what a workload is built of."""

    def __init__(self, mode: FakeTensorMode) -> None:
        super().__init__(0)
        self.mode = mode

    def run(self, run: TorchRun) -> TorchRun:
        self.module(run.model)
        return replace(run, args=self.nested(run.args), kwargs=self.nested(dict(run.kwargs)))

    def tensor(self, tensor: torch.Tensor) -> torch.Tensor:
        earlier = self._made.get(id(tensor))
        if earlier is not None:
            return earlier[1]
        if tensor.layout is not torch.strided or torch.nn.parameter.is_lazy(tensor) or tensor.is_nested:
            raise NotStrided(f"the step cannot be compiled without values: {type(tensor).__name__} is not strided")
        with self.mode:
            fake = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="mps")
            if isinstance(tensor, torch.nn.Parameter):
                fake = torch.nn.Parameter(fake, tensor.requires_grad)
            else:
                fake.requires_grad_(tensor.requires_grad)
        self._made[id(tensor)] = (tensor, fake)
        return fake


class _Libraries:
    """Stands for ``torch.mps.compile_shader``: its kernels are launched, and do nothing."""

    def __init__(self) -> None:
        self.launched: dict[Kernel, Launched] = {}

    def __call__(self, generated: Generated, source: str) -> Any:
        counts = {name: self._counted(kernel) for name, kernel in generated.defined(source).items()}
        return SimpleNamespace(**counts)

    def _counted(self, kernel: Kernel) -> Callable[..., None]:
        launched = self.launched.setdefault(kernel, Launched())
        return lambda *args, **_sizes: launched.add(args)


def compiled_step(
    workload: Workload,
    options: RunOptions,
    table: KernelTable,
    vary: Vary | None = None,
    *,
    values: bool = False,
    anyway: bool = True,
) -> tuple[CompiledStep, list[AdvisoryMatch]]:
    """The step with its model compiled, and the advisories that are about compiled calls of it.

    ``vary``: it is taken with those sizes too, for what is compiled again. ``values``: tensors have them, and kernels
    run. Raises ``MpsprobeError`` where there is no native device, or the workload cannot be built; and where the step
    does not come to its end before it is compiled, unless it is to be compiled ``anyway``.
    """
    chain, fakes = chain_for(table, options), _Fakes(FakeTensorMode(allow_non_fake_inputs=True))
    libraries: Kernels | _Libraries = Kernels() if values else _Libraries()
    device = NativeDevice(chain, lines=False, chip=options.chip, shader=libraries)
    sizes = [(options, None), *(vary.sizes(options) if vary is not None else ())]
    with same_numbers():
        shapes = [] if values else [built(workload, asked, table, width)[0] for asked, width in sizes]
        with device, _with_values_or_not(values=values):
            assert device.generated is not None, "its shader asks for that"
            steps = (_placed(workload, *size) for size in sizes) if values else iter([*map(fakes.run, shapes)])
            with nullcontext() if values else fakes.mode, optimizers_followed():
                run = next(steps)
                device.attribution.name_modules(run.model)
                eager, calls, others = (_Calls(device, values=values) for _ in range(3))
                with as_before(run.model.modules()):
                    failure = _taken(_as_captured(run), options, table, eager, device)
                if failure is not None and not anyway:
                    raise WorkloadError(f"'{workload.name}' ends with {failure.error}: {failure.message}", None)
                torch._dynamo.reset()
                model = torch.compile(run.model)
                failure = _taken(replace(run, model=model), options, table, calls, device) or failure
                parts = made(device.generated, libraries.launched)
                if device.generated.not_run is None:
                    parts["compiled"] = _cost(calls.launched, *libraries.launched.values())
                    if options.chip and failure is None:
                        parts["step_ms"] = _step_ms(options.chip, calls, libraries, table.release)
                for other in steps:
                    failure = failure or _taken(replace(other, model=model), options, table, others, device)
        again = recompilations(device.generated)
    step = CompiledStep(
        **parts | {"recompiled": again},
        values=values,
        operators=findings(calls.recorder, table),
        eager=_cost(eager.launched),
        failure=failure,
    )
    return step, advisory_matches(eager.recorder, table, options)


def _as_captured(run: TorchRun) -> TorchRun:
    """Not compiled, with the calls that advisories of captured ones are about."""
    return replace(run, call=captured(run.call or (lambda of, args, kwargs: of(*args, **kwargs))))


def _placed(workload: Workload, options: RunOptions, width: int | None) -> TorchRun:
    """On the device, with values."""
    run = runs.built(workload, options)
    if width is not None:
        images.resize(run, width)
        run.args, run.kwargs = tree_map_only(
            torch.Tensor,
            lambda tensor: torch.rand(tensor.shape).to(tensor.dtype) if tensor.is_meta else tensor,
            (run.args, run.kwargs),
        )
    return runs.placed(run, "mps", copied=False)  # built for this step: a copy would be twice the memory


def _cost(*launched: Launched) -> StepCost:
    moved = sum(kernel.moved_bytes for kernel in launched)
    return StepCost(launches=sum(kernel.phases.total() for kernel in launched), moved_bytes=moved)


def _step_ms(chip: str, calls: _Calls, libraries: Kernels | _Libraries, release: str) -> list[float] | None:
    """Of the operators that are still called, and of generated kernels, as long as their bytes take to move."""
    kernels = []
    for kernel, launched in libraries.launched.items():
        # Of a table, such as that of an embedding, a few rows are read: about as much as is written
        table = launched.largest_bytes if any(map(gathers, kernel.operators)) else 0
        if number := launched.phases.total():
            moved = (launched.moved_bytes - table) / number
            kernels.append(TimedCall(Cost("elementwise", 0.0, moved, "float32"), number))
    machine = machine_named(chip)
    operators = calls_of(works_of(calls.recorder.calls()))
    predicted = estimate([*operators, *kernels], machine.chip, machine.gpu_cores, release)
    return None if predicted is None else predicted.step_ms.digits()


def _taken(
    run: TorchRun, options: RunOptions, table: KernelTable, calls: _Calls, device: NativeDevice
) -> RunFailure | None:
    with Attempt(run.model, device.attribution, phase_now) as attempt, calls:
        ReleaseStep(run, options, table).take()
    return attempt.failure


@contextmanager
def _with_values_or_not(*, values: bool) -> Iterator[None]:
    """Without ``values`` a wrapper runs with tensors that have no storage to look into."""
    with replacing() as (replace_, _), torch._inductor.config.patch({} if values else _CHECKS):
        if not values:
            guards = torch._C._dynamo.guards
            replace_(
                guards,
                "_reinterpret_tensor",
                lambda tensor, size, stride, offset=0: tensor.as_strided(size, stride, offset),
            )
            replace_(compile_fx, "get_input_idxs_to_check", lambda *_: [])
        yield


_CHECKS: dict[str, Any] = {"size_asserts": False, "alignment_asserts": False, "nan_asserts": False}
