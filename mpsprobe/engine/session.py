"""One run on one device: first call, warm-up, timed steps, phases, and the probes that slow steps down."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from mpsprobe.engine import warmup
from mpsprobe.engine.request import ProfileRequest
from mpsprobe.engine.statistics import outliers
from mpsprobe.errors import MpsprobeError
from mpsprobe.protocols import Device, Probe, Progress, Steps, Stopwatch
from mpsprobe.schemas.profile import DurationStatistics, ProfileCell, StepSample, Throughput, UnavailableProbe
from mpsprobe.schemas.workload import WorkloadInfo
from mpsprobe.suggestions import in_short

PHASE_STEPS = 5
DISTURBED_STEPS = 3
SHOWN_EACH = 100  # steps after which the running median is worked out anew, once there are as many
CLOCK_WENT_BACK = "the clock went back during {count} of the steps: they are left out"
HOST_CLOCK = "timed by the host's clock: {reason}"
DEVICE_CLOCK = "steps are timed by the device's own clock; the first call and the phases by the host's"
# Fields of ProfileCell that are the session's own: no probe fills them.
OWN_FIELDS = {
    *("workload", "phase", "device", "batch_size", "seq_len", "dtype", "autocast", "first_call_ns", "warmup", "steps"),
    *("step", "phases", "phase_samples_ns", "throughput", "unavailable", "notes", "failure"),
}


@dataclass(slots=True)
class Measured:
    """What a session found so far; every part of it is good also when the session did not come to its end.

    Attributes:
        found: fields of ``ProfileCell`` from the probes.
        interrupted: Ctrl-C came; what was measured before is here.
        error: what a step raised.
        phase: what the session was doing: ``first call``, ``warm-up``, ``steps``, ``phases``, or a probe's name.
    """

    first_call_ns: int | None = None
    warmup_ns: list[int] = field(default_factory=list)
    stable: bool = False
    rule: str = warmup.RULE
    durations_ns: list[int] = field(default_factory=list)
    phases_ns: dict[str, list[int]] = field(default_factory=dict)
    found: dict[str, Any] = field(default_factory=dict)
    unavailable: list[UnavailableProbe] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    interrupted: bool = False
    error: BaseException | None = None
    phase: str = "first call"


class Session:
    """Runs steps on a device and takes the time.

    Args:
        clock: ns, never going back (``time.perf_counter_ns``); what it says is not believed blindly.
    """

    def __init__(
        self, device: Device, probes: Sequence[Probe], clock: Callable[[], int] = time.perf_counter_ns
    ) -> None:
        self._device = device
        self._clock = clock
        self._stopwatch: Stopwatch | None = None
        self._went_back = 0
        self._probes = list(probes)

    def measure(self, steps: Steps, request: ProfileRequest, progress: Progress) -> Measured:
        """Measure ``steps`` as many times as ``request`` says, by its clock; what else it asks for is done before.

        Ctrl-C and errors end it early; they are in what it returns.
        """
        measured = Measured()
        usable = self._usable(measured)
        total = None if request.warmup is None else request.warmup + request.steps
        progress.start(total, "first call")
        try:
            measured.first_call_ns = self._timed(steps.step)  # compilation, on the host: by its clock
            if request.clock == "device":
                self._stopwatch = self._of_the_device(measured)
            self._warm_up(steps, request.warmup, measured, progress)
            measured.phase = "steps"
            with self._probing([probe for probe in usable if not probe.disturbs], steps, measured) as sample:
                self._steps(steps, request.steps, measured, progress, sample)
            self._phases(steps, measured, progress)
            for probe in usable:
                if probe.disturbs:
                    self._disturbed(probe, steps, measured, progress)
        except KeyboardInterrupt:
            measured.interrupted = True
        except BaseException as error:  # noqa: BLE001 - whatever a step raises belongs into the report
            measured.error = error.with_traceback(None)  # its frames hold tensors: memory for the next size
        finally:
            progress.stop()
        if self._went_back:
            measured.notes.append(CLOCK_WENT_BACK.format(count=self._went_back))
        return measured

    def _usable(self, measured: Measured) -> list[Probe]:
        usable = []
        for probe in self._probes:
            reason = probe.unavailable(self._device)
            if reason is None:
                usable.append(probe)
            else:
                measured.unavailable.append(UnavailableProbe(probe=probe.name, reason=reason))
        return usable

    def _timed(self, run: Callable[[], object]) -> int | None:
        """How long ``run`` took; ``None`` where the clock went back."""
        self._device.synchronize()
        duration: float
        if self._stopwatch is not None:
            self._stopwatch.start()
            run()
            duration = self._stopwatch.stop()
        else:
            start = self._clock()
            run()
            self._device.synchronize()
            duration = self._clock() - start
        if not (math.isfinite(duration) and duration >= 0):
            self._went_back += 1
            return None
        return round(duration)

    def _of_the_device(self, measured: Measured) -> Stopwatch | None:
        reason = why_no_clock(self._device)
        measured.notes.append(HOST_CLOCK.format(reason=reason) if reason is not None else DEVICE_CLOCK)
        return self._device.stopwatch() if reason is None else None  # type: ignore[attr-defined]

    def _warm_up(self, steps: Steps, wanted: int | None, measured: Measured, progress: Progress) -> None:
        measured.phase = "warm-up"
        durations = measured.warmup_ns
        if wanted is not None:
            measured.rule = f"{wanted} steps, as asked"

        def settled() -> bool:
            return warmup.is_stable(durations) or warmup.is_enough(durations)

        while not settled() if wanted is None else len(durations) < wanted:
            progress.advance(f"warm-up, step {len(durations) + 1}")
            durations.append(self._timed(steps.step) or 0)
        measured.stable = warmup.is_stable(durations)

    def _steps(
        self, steps: Steps, wanted: int, measured: Measured, progress: Progress, sample: Callable[[], None]
    ) -> None:
        shown = "steps"
        progress.start(wanted, shown)
        for _ in range(wanted):
            duration = self._timed(steps.step)
            if duration is not None:
                measured.durations_ns.append(duration)
            sample()
            done = len(measured.durations_ns)
            if done and (done <= SHOWN_EACH or done % SHOWN_EACH == 0):
                shown = f"steps, median {median(measured.durations_ns) / 1e6:.2f} ms"
            progress.advance(shown)

    def _phases(self, steps: Steps, measured: Measured, progress: Progress) -> None:
        measured.phase = "phases"
        progress.start(PHASE_STEPS, "phases")
        for _ in range(PHASE_STEPS):
            for name, duration in steps.phases().items():
                if duration >= 0:
                    measured.phases_ns.setdefault(name, []).append(duration)
            progress.advance()
        if len(measured.phases_ns) == 1:  # one phase is the step itself
            measured.phases_ns.clear()

    def _disturbed(self, probe: Probe, steps: Steps, measured: Measured, progress: Progress) -> None:
        """Steps for one probe alone: as many as it wants, for as long as it needs."""
        measured.phase = probe.name
        with self._probing([probe], steps, measured) as sample:
            wanted = int(getattr(probe, "steps", DISTURBED_STEPS))
            shortest = int(getattr(probe, "shortest_ns", 0))
            progress.start(wanted, probe.name)
            started, taken = self._clock(), 0
            while taken < wanted or 0 <= self._clock() - started < shortest:
                steps.step()
                self._device.synchronize()
                sample()
                taken += 1
                progress.advance()

    @contextmanager
    def _probing(self, probes: list[Probe], steps: Steps, measured: Measured) -> Iterator[Callable[[], None]]:
        """The probes run inside; one that fails becomes unavailable and costs nothing else."""
        running: list[Probe] = []

        def attempt(probe: Probe, action: Callable[[], Any]) -> Any:
            try:
                return action()
            except Exception as error:  # noqa: BLE001 - a probe's failure is data
                reason = error.message if isinstance(error, MpsprobeError) else f"it failed: {in_short(error)}"
                measured.unavailable.append(UnavailableProbe(probe=probe.name, reason=reason))
                if probe in running:
                    running.remove(probe)
                    with suppress(Exception):
                        probe.stop()  # it may have a thread or a file open
                return None

        def sample() -> None:
            for probe in tuple(running):
                attempt(probe, probe.sample)

        for probe in probes:
            running.append(probe)
            attempt(probe, partial(probe.start, self._device, steps))
        try:
            yield sample
        finally:
            for probe in tuple(running):
                running.remove(probe)  # it is stopped once
                for name, value in (attempt(probe, partial(_sound, probe)) or {}).items():
                    present = measured.found.get(name)
                    measured.found[name] = [*present, *value] if isinstance(present, list) else value


def why_no_clock(device: Device) -> str | None:
    """Why steps on ``device`` cannot be timed by its own clock; ``None`` where they can."""
    asked = getattr(device, "clock_unavailable", None)
    reason: str | None = asked() if asked is not None else f"{device.name} has no clock of its own"
    return reason


def _sound(probe: Probe) -> dict[str, Any]:
    """What ``probe`` found, as the report takes it.

    Raises:
        MpsprobeError: it found something that no report can hold.
    """
    found = {}
    for name, value in probe.stop().items():
        field = ProfileCell.model_fields.get(name)
        if field is None or field.annotation is None or name in OWN_FIELDS:
            raise MpsprobeError(f"it gave '{name}', which a probe must not fill")
        try:
            found[name] = TypeAdapter[Any](field.annotation).validate_python(value)
        except ValidationError as error:
            place = ".".join(str(part) for part in error.errors()[0]["loc"])
            raise MpsprobeError(f"its {name} cannot be: {place} {error.errors()[0]['msg']}") from error
    return found


def step_samples(durations_ns: Sequence[int], process: int = 0) -> list[StepSample]:
    """Timed steps as the report has them, outliers marked."""
    marks = outliers(durations_ns)
    return [
        StepSample(duration_ns=duration, process=process, outlier=mark)
        for duration, mark in zip(durations_ns, marks, strict=True)
    ]


def throughput(info: WorkloadInfo, step: DurationStatistics | None) -> list[Throughput]:
    """Samples and tokens in a second, where the workload has such things."""
    if step is None or step.low_ns <= 0 or info.batch_size is None:
        return []
    samples = info.batch_size * info.grad_accum
    found = [_rate("samples", samples, step)]
    return [*found, _rate("tokens", samples * info.seq_len, step)] if info.seq_len else found


def _rate(unit: Literal["samples", "tokens"], amount: int, step: DurationStatistics) -> Throughput:
    inverse = [amount * 1e9 / spent for spent in (step.median_ns, step.high_ns, step.low_ns)]
    return Throughput(unit=unit, per_second=inverse[0], low=inverse[1], high=inverse[2])
