"""The whole of ``verify``: the runs of a step, what was wrong in them, and what is known about that."""

from __future__ import annotations

import contextlib
import gc
import os
import platform
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from mpsprobe.environment import collect_environment
from mpsprobe.errors import MpsprobeError, UsageError
from mpsprobe.protocols import Device, Progress, RunOptions, TorchRun, Workload
from mpsprobe.schemas import (
    ComparedTensor,
    DeviceInfo,
    KnownWrong,
    RunFailure,
    VerificationReport,
    WorkloadInfo,
    WrongOperator,
)
from mpsprobe.stepping import TorchStep, workload_info
from mpsprobe.suggestions import in_short
from mpsprobe_coverage.knowledge.advisories.conditions import matches
from mpsprobe_coverage.knowledge.advisories.store import entries_about
from mpsprobe_coverage.knowledge.calls.call import Call
from mpsprobe_coverage.knowledge.calls.keys import operator_name
from mpsprobe_coverage.knowledge.calls.spec import dtype_name
from mpsprobe_coverage.knowledge.kernels.releases import installed_release
from mpsprobe_coverage.recording.attribution import Attribution
from mpsprobe_coverage.recording.phases import optimizers_followed
from mpsprobe_coverage.reporting.attempts import Attempt
from mpsprobe_coverage.verifying.comparing import NOISE, Distance, distance, finite, tolerance_of
from mpsprobe_coverage.verifying.copying import Copies, copied_deeply, to_device
from mpsprobe_coverage.verifying.drawing import Drawing, settled
from mpsprobe_coverage.verifying.operators import Checking, Found
from mpsprobe_coverage.verifying.runs import Following, Key, Seen, all_equal, built, narrowest, parted, placed

MPS = "mps"
COPIES = 4
"""Of the model's bytes, what the float64 run needs in addition: it is twice as wide, and so are its results."""
WITH_GRADIENTS = 4
"""The same in training: gradients, and two moments of the optimizer, for each parameter."""
IN_PARTS = (
    "the model does not fit into memory together with a float64 copy: outputs were compared in {windows} of it, each "
    "from the inputs that it had on the device, and gradients and parameters operator by operator alone"
)
_aten = torch.ops.aten


class Verification:
    """A workload on one device. ``checked`` and ``found`` have what a run has seen so far."""

    def __init__(
        self, workload: Workload, options: RunOptions, device: Device, progress: Progress, say: Callable[[str], None]
    ) -> None:
        self._options, self._device, self._progress, self._say = options, device, progress, say
        self._name = workload.name
        self._run = built(workload, options)
        if all_equal(self._run.model):
            why = f"all weights of '{workload.name}' are one number: an error of a kernel would not show"
            raise UsageError(why, "Load real weights (--weights), or make random ones.")
        self._release = getattr(device, "release", None) or installed_release()
        self._type = MPS if device.name == "virtual" else device.name
        self._dtype = narrowest(self._run.model)
        usual = tolerance_of("", self._dtype)
        self._usual = usual.rtol + usual.atol
        self._near = self._usual * (1 - 1 / NOISE)  # what is nearer to the CPU cannot be wrong
        self._notes: dict[str, None] = {}
        self._failure: RunFailure | None = None
        self.interrupted = self._ended = False
        self.attribution = Attribution()
        self.checking = Checking(self._type, self._dtype, self.attribution)
        self._cpu, self._there = Seen(), Seen()
        self._right: dict[Key, Any] = {}  # what the device is compared with
        self._by_cpu: dict[Key, Distance] = {}  # how far the CPU is from float64, where that judged
        self._entered: dict[str, Any] = {}  # windows of a model that does not fit, and their inputs until they end

    def report(self) -> VerificationReport:
        """Run the step on the CPU, then on the device, and in float64 where they differ; what was found."""
        start = time.perf_counter_ns()
        info = self._info()
        try:
            self._runs()
        except KeyboardInterrupt:
            self.interrupted = True
        finally:
            self._progress.stop()
        return reported(
            self.checking,
            info,
            self._device.describe(),
            self._release if self._type == MPS else None,
            tensors=self._tensors(),
            parted=parted(self._there, self._cpu) if self._cpu.order and self._ended else None,
            failure=self._failure,
            interrupted=self.interrupted,
            elapsed_ns=time.perf_counter_ns() - start,
            notes=list(self._notes),
        )

    def found(self) -> list[Found]:
        return list(self.checking.wrong.values())

    def _runs(self) -> None:
        model_bytes = _bytes(self._run.model)
        needed = model_bytes * COPIES * (WITH_GRADIENTS if self._options.phase == "training" else 1)
        whole = (free := free_bytes()) is None or needed < free
        self._say(
            f"verify: {model_bytes >> 20} MiB of weights; the CPU's runs need up to {needed >> 20} MiB, "
            "activations too; the device's run computes all of it once more, operator by operator"
        )
        if whole:
            self._progress.start(None, "on the CPU")
            start = time.monotonic()
            self._cpu = self._begin(self._run)
            kept = sum(tensor.nbytes for tensor in self._right.values())
            self._say(f"verify: the CPU took {time.monotonic() - start:.1f} s, its outputs {kept >> 20} MiB")
            self._progress.stop()
        windows = [] if whole else list(fitting(self._run.model, (free or 0) // 2))
        if windows:
            counted = f"{len(windows)} window{'s' if len(windows) > 1 else ''}"
            self._note(IN_PARTS.format(windows=counted))
            most = max(_bytes(self._run.model.get_submodule(window)) for window in windows) * COPIES
            self._say(f"verify: that is more than there is: {counted} of at most {most >> 20} MiB and activations")
        self._progress.start(None, f"on {self._device.name}, operator by operator")
        self._on_device(windows)
        if whole:
            self._end(self._run)

    def _begin(self, run: TorchRun, **part: Any) -> Seen:
        """Run it on the CPU: what the device makes of the same is compared with that."""
        seen = self._on_cpu(run, **part)
        self._right.clear()
        self._right |= seen.kept
        seen.kept.clear()
        return seen

    def _end(self, run: TorchRun, **part: Any) -> None:
        """Run it in float64 where the device and the CPU differ."""
        if differ := self._differ():
            self._progress.start(None, "on the CPU, in float64")
            for key, both in self._on_cpu(run, differ, **part).compared.items():
                if None not in both:
                    self._by_cpu[key], self._there.compared[key] = both

    def _differ(self) -> dict[Key, Any]:
        """The CPU's and the device's tensors, where float64 has to judge them: empty where it need not run.

        Where each operator is right, what differs is rounding: of a gradient next to those of its module, as that of a
        bias may be zero but for that, and not of parameters, which an optimizer's square roots make of gradients.
        """
        seen, sizes = self._there.compared, Counter[Any]()
        for key, one in seen.items():
            sizes[_together(key)] = max(one.size, sizes[_together(key)])
        differ = {key: apart.both for key, apart in seen.items() if apart.both is not None}
        suspect = self.checking.wrong or self.checking.begins or self.checking.skipped
        beyond = (
            seen[key].nonfinite or seen[key].away > self._near * sizes[_together(key)]
            for key in differ
            if key[0] != "parameter"
        )
        return differ if suspect or any(beyond) else {}

    def _compare(self, value: torch.Tensor, right: torch.Tensor) -> Distance | None:
        """How far a tensor of the device is from the CPU's; with both where it may be wrong."""
        found = distance(value, right)
        if found is None or (found.relative <= self._near and not found.nonfinite):
            return found
        return found._replace(both=(right, to_device(value, "cpu")))

    def _on_cpu(
        self, run: TorchRun, differ: dict[Key, Any] | None = None, *, phase: Any = "", drawn: int = 0, name: str = ""
    ) -> Seen:
        """In float64 where there is what differs, to say how far both are from that."""
        wide = differ is not None
        run = placed(run, "cpu", wide=wide)
        options = replace(self._options, phase=phase or self._options.phase)
        options = replace(options, autocast=None) if wide else options
        usual = torch.get_default_dtype()
        try:
            if wide:
                torch.set_default_dtype(torch.float64)
            with settled(run.model, self._note):
                step = Following(run, options, "cpu", differ, compare=_both, name=name)
                return step.followed(Drawing(self._dtype, wide=wide, drawn=drawn))
        except MpsprobeError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a model raises: its operators are compared all the same
            what = "in float64" if wide else f"on the CPU in {dtype_name(self._dtype)}"
            self._note(f"the model does not run {what} ({in_short(error)}): whole runs were not judged")
            return Seen()
        finally:
            torch.set_default_dtype(usual)
            del run
            gc.collect()

    def _enter(self, name: str, _module: Any, args: Any, kwargs: Any) -> None:
        """A window runs on the CPU from its inputs on the device, at its first call."""
        if name not in self._entered:
            with _disable_current_modes():  # but not `settled`, by which attention drops nothing
                args, kwargs = copied_deeply((args, kwargs), partial(to_device, device="cpu"))
                run = TorchRun(model=self._run.model.get_submodule(name), args=args, kwargs=kwargs)
                part: dict[str, Any] = {"phase": "inference", "drawn": self.checking.drawn, "name": name}
                self._begin(run, **part)
            self._entered[name] = run, part

    def _leave(self, name: str, *_: Any) -> None:
        if self._entered[name] is not None:
            (run, part), self._entered[name] = self._entered[name], None
            with _disable_current_modes():
                self._end(run, **part)

    def _on_device(self, windows: Sequence[str]) -> None:
        run = placed(self._run, self._type)
        for name in windows:
            module = run.model.get_submodule(name)
            module.register_forward_pre_hook(partial(self._enter, name), with_kwargs=True)
            module.register_forward_hook(partial(self._leave, name))
        self.attribution.name_modules(run.model)
        self.checking.advance = self._progress.advance
        attempt = Attempt(run.model, self.attribution, lambda: self.checking.phase)
        with attempt, settled(run.model, self._note), self.attribution, optimizers_followed():
            step = Following(run, self._options, self._type, self._right, compare=self._compare)
            self._there = step.seen
            step.followed(self.checking)
        self._failure, self._ended = attempt.failure, attempt.failure is None
        self.checking.copies = Copies()  # float64 may need their memory

    def _note(self, text: str) -> None:
        self._notes[text] = None

    def _info(self) -> WorkloadInfo:
        step = TorchStep(self._run, self._options, "cpu")
        info = workload_info(self._name, self._run, self._options, step.optimizer)
        return info.model_copy(update={"dtype": dtype_name(self._dtype)})

    def _tensors(self) -> list[ComparedTensor]:
        """Outputs of modules in the order of the run, then loss, gradients and parameters."""
        rows = []
        for key, there in self._there.compared.items():
            what, name, number = key
            cpu = self._by_cpu.get(key)
            allowed = max(self._usual, NOISE * cpu.relative if cpu is not None else 0.0)
            wrong = cpu is not None and (not there.relative <= allowed or (there.nonfinite > 0 and cpu.nonfinite == 0))
            errors = {"error": finite(there.relative), "cpu_error": None if cpu is None else finite(cpu.relative)}
            row = ComparedTensor(what=what, name=name, call=number, nonfinite=there.nonfinite, wrong=wrong, **errors)
            rows.append(row)
        return rows


def reported(
    checking: Checking, info: WorkloadInfo, device: DeviceInfo, release: str | None, **more: Any
) -> VerificationReport:
    """What ``checking`` found, and ``more`` fields; ``release``: of MPS, whose advisories are asked."""
    return VerificationReport(
        workload=info,
        device=device,
        environment=collect_environment(),
        calls=checking.calls,
        operators=dict(checking.operators),
        wrong=[_with_advisories(found, release) for found in checking.wrong.values()],
        nonfinite=checking.begins,
        skipped=checking.skipped,
        **more,
    )


def _with_advisories(found: Found, release: str | None) -> WrongOperator:
    advisories = [] if release is None else known_wrong(found.call, found.report.phase, release)
    return found.report.model_copy(update={"calls": found.calls, "advisories": advisories})


def known_wrong(call: Call, phase: str, release: str) -> list[KnownWrong]:
    """The advisories that ``call`` matches on ``release``, on the macOS that this is if it is one."""
    macos = platform.mac_ver()[0] or None
    found = []
    for one in _as_on_mps(call):
        for entry in entries_about(operator_name(one.func)):
            if entry.effect != "numbers" or not entry.affects(release, None, macos):
                continue
            asked = dict.fromkeys(entry.conditions)  # what only the moment of the call tells is not known afterwards
            answer = matches(entry, one, "training" if phase != "forward" else "inference", asked)
            if answer is not False:
                known = KnownWrong(id=entry.id, title=entry.title, fixed=entry.torch.fixed, undecided=answer is None)
                found.append(known)
    return sorted(found, key=lambda known: known.undecided)


def _as_on_mps(call: Call) -> Iterator[Call]:
    """``call``, and what the library of MPS makes of it below autograd, by the names that advisories have."""
    yield call
    of = call.argument
    name = call.func._schema.name
    with contextlib.suppress(KeyError, AttributeError):
        if name == "aten::convolution":
            asked = ("input", "weight", "bias", "padding", "stride", "dilation", "groups")
            func = _aten._mps_convolution.default
            if of("transposed"):
                asked = ("input", "weight", "padding", "output_padding", "stride", "dilation", "groups")
                func = _aten._mps_convolution_transpose.default
            yield replace(call, func=func, args=tuple(map(of, asked)), kwargs={})
        elif name == "aten::convolution_backward" and not of("transposed"):
            asked = ("input", "grad_output", "weight", "padding", "stride", "dilation", "groups")
            args = (*map(of, asked), of("output_mask")[:2])
            yield replace(call, func=_aten.mps_convolution_backward.default, args=args, kwargs={})


def _both(exact: torch.Tensor, seen: tuple[torch.Tensor, torch.Tensor]) -> tuple[Any, Any]:
    """How far the CPU's tensor and the device's are from float64."""
    return distance(seen[0], exact), distance(seen[1], exact)


def _together(key: Key) -> Any:
    return key[1].rpartition(".")[0] if key[0] == "gradient" else key


def _bytes(module: torch.nn.Module) -> int:
    return sum(parameter.nbytes for parameter in module.parameters())


def fitting(module: torch.nn.Module, free: int, name: str = "") -> Iterator[str]:
    """The names of the largest modules that are called, and whose copies fit into ``free`` bytes or have no parts."""
    is_called = type(module).forward is not torch.nn.Module.forward
    parts = dict(module.named_children())
    if is_called and (not parts or _bytes(module) * COPIES <= free):
        yield name
        return
    for part, one in parts.items():
        yield from fitting(one, free, f"{name}.{part}" if name else part)


def free_bytes() -> int | None:
    """The memory that processes can still take; ``None`` where the system does not say."""
    try:
        import psutil

        return int(psutil.virtual_memory().available)
    except ImportError:
        pass
    try:  # what Linux calls free is without the files that it keeps in memory, and gives up
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None
