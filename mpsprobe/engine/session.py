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

from mpsprobe.engine.request import ProfileRequest
from mpsprobe.errors import MpsprobeError
from mpsprobe.protocols import Device, Probe, Progress, Steps, Stopwatch
from mpsprobe.schemas.profile import DurationStatistics, ProfileCell, Throughput, UnavailableProbe
from mpsprobe.schemas.run import WorkloadInfo
from mpsprobe.suggestions import in_short

PHASE_STEPS = 5
DISTURBED_STEPS = 3
SHOWN_EACH = 100  # steps after which the running median is worked out anew, once there are as many
CLOCK_WENT_BACK = "the clock went back during {count} of the steps: they are left out"
HOST_CLOCK = "timed by the host's clock: {reason}"
DEVICE_CLOCK = "steps are timed by the device's own clock; the first call and the phases by the host's"
OF_PROBES = {"memory", "readings", "profiled_steps", "operators", "modules", "fallbacks", "trace"}  # of a cell's fields

WINDOW = 5  # steps of the warm-up that are looked at together
CLOSE = 0.02  # how far the medians of two windows in a row may lie apart, as a share
TIGHT = 0.03  # how far the steps of one window may lie apart
MOST_STEPS = 50
MOST_NS = 60_000_000_000
WARMUP_RULE = (
    f"until {WINDOW} steps lie within {TIGHT:.0%} of each other, or the medians of two windows of {WINDOW} within "
    f"{CLOSE:.0%}; at most {MOST_STEPS} steps or {MOST_NS // 10**9} s"
)


@dataclass(slots=True)
class Measured:
    """What a session found so far; every part of it is good also when the session did not come to its end."""

    first_call_ns: int | None = None
    warmup_ns: list[int] = field(default_factory=list)
    stable: bool = False
    rule: str = WARMUP_RULE
    durations_ns: list[int] = field(default_factory=list)
    phases_ns: dict[str, list[int]] = field(default_factory=dict)
    found: dict[str, Any] = field(default_factory=dict)  # fields of ProfileCell from the probes
    unavailable: list[UnavailableProbe] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    interrupted: bool = False  # by Ctrl-C
    error: BaseException | None = None  # what a step raised
    phase: str = "first call"  # what was going on: first call, warm-up, steps, phases, or a probe's name


class Session:
    """Runs steps on a device and takes the time, by ``clock`` in ns, which is not believed blindly."""

    def __init__(
        self, device: Device, probes: Sequence[Probe], clock: Callable[[], int] = time.perf_counter_ns
    ) -> None:
        self._device = device
        self._clock = clock
        self._stopwatch: Stopwatch | None = None
        self._went_back = 0
        self._probes = probes

    def measure(self, steps: Steps, request: ProfileRequest, progress: Progress) -> Measured:
        """Measure ``steps`` as ``request`` says. Ctrl-C and errors end it early; they are in what it returns."""
        self._steps, self._progress, self._measured = steps, progress, Measured()
        measured = self._measured
        usable = []
        for probe in self._probes:
            if (reason := probe.unavailable(self._device)) is None:
                usable.append(probe)
            else:
                measured.unavailable.append(UnavailableProbe(probe=probe.name, reason=reason))
        progress.start(None if request.warmup is None else request.warmup + request.steps, "first call")
        try:
            measured.first_call_ns = self._timed(steps.step)  # compilation, on the host: by its clock
            if request.clock == "device":
                reason = why_no_clock(self._device)
                measured.notes.append(DEVICE_CLOCK if reason is None else HOST_CLOCK.format(reason=reason))
                self._stopwatch = self._device.stopwatch() if reason is None else None  # type: ignore[attr-defined]
            self._warm_up(request.warmup)
            with self._probing("steps", [probe for probe in usable if not probe.disturbs]) as sample:
                self._time(request.steps, sample)
            self._time_phases()
            for probe in usable:
                if probe.disturbs:
                    self._disturbed(probe)
        except KeyboardInterrupt:
            measured.interrupted = True
        except BaseException as error:  # noqa: BLE001 - whatever a step raises belongs into the report
            measured.error = error.with_traceback(None)  # its frames hold tensors: memory for the next size
        finally:
            progress.stop()
        if self._went_back:
            measured.notes.append(CLOCK_WENT_BACK.format(count=self._went_back))
        return measured

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

    def _warm_up(self, wanted: int | None) -> None:
        measured, durations = self._measured, self._measured.warmup_ns
        measured.phase = "warm-up"
        if wanted is not None:
            measured.rule = f"{wanted} steps, as asked"
        while not (is_stable(durations) or is_enough(durations)) if wanted is None else len(durations) < wanted:
            self._progress.advance(f"warm-up, step {len(durations) + 1}")
            durations.append(self._timed(self._steps.step) or 0)
        measured.stable = is_stable(durations)

    def _time(self, wanted: int, sample: Callable[[], None]) -> None:
        durations, shown = self._measured.durations_ns, "steps"
        self._progress.start(wanted, shown)
        for _ in range(wanted):
            duration = self._timed(self._steps.step)
            if duration is not None:
                durations.append(duration)
            sample()
            if durations and (len(durations) <= SHOWN_EACH or len(durations) % SHOWN_EACH == 0):
                shown = f"steps, median {median(durations) / 1e6:.2f} ms"
            self._progress.advance(shown)

    def _time_phases(self) -> None:
        phases, self._measured.phase = self._measured.phases_ns, "phases"
        self._progress.start(PHASE_STEPS, "phases")
        for _ in range(PHASE_STEPS):
            for name, duration in self._steps.phases().items():
                if duration >= 0:
                    phases.setdefault(name, []).append(duration)
            self._progress.advance()
        if len(phases) == 1:  # one phase is the step itself
            phases.clear()

    def _disturbed(self, probe: Probe) -> None:
        """Steps for one probe alone: as many as it wants, for as long as it needs."""
        with self._probing(probe.name, [probe]) as sample:
            wanted = int(getattr(probe, "steps", DISTURBED_STEPS))
            shortest = int(getattr(probe, "shortest_ns", 0))
            self._progress.start(wanted, probe.name)
            started, taken = self._clock(), 0
            while taken < wanted or 0 <= self._clock() - started < shortest:
                self._steps.step()
                self._device.synchronize()
                sample()
                taken += 1
                self._progress.advance()

    @contextmanager
    def _probing(self, phase: str, probes: list[Probe]) -> Iterator[Callable[[], None]]:
        """The probes run inside; one that fails becomes unavailable and costs nothing else."""
        measured, running = self._measured, list[Probe]()
        measured.phase = phase

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
            attempt(probe, partial(probe.start, self._device, self._steps))
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
    if not hasattr(device, "clock_unavailable"):
        return f"{device.name} has no clock of its own"
    reason: str | None = device.clock_unavailable()
    return reason


def is_stable(durations: Sequence[float]) -> bool:
    """Whether the last of these steps of a warm-up, in order, are like those before them."""
    if len(durations) < WINDOW:
        return False
    last = durations[-WINDOW:]
    centre = median(last)
    if max(last) - min(last) <= TIGHT * centre:
        return True
    before = durations[-2 * WINDOW : -WINDOW]
    return len(before) == WINDOW and abs(centre - median(before)) <= CLOSE * centre


def is_enough(durations: Sequence[float]) -> bool:
    """Whether to go on with the timed steps although they have not settled."""
    return len(durations) >= MOST_STEPS or sum(durations) >= MOST_NS


def _sound(probe: Probe) -> dict[str, Any]:
    """What ``probe`` found, as the report takes it; an ``MpsprobeError`` where no report can hold it."""
    fields = {}
    for name, value in probe.stop().items():
        if name not in OF_PROBES:
            raise MpsprobeError(f"it gave '{name}', which a probe must not fill")
        try:
            fields[name] = TypeAdapter[Any](ProfileCell.model_fields[name].annotation or Any).validate_python(value)
        except ValidationError as error:
            place = ".".join(str(part) for part in error.errors()[0]["loc"])
            raise MpsprobeError(f"its {name} cannot be: {place} {error.errors()[0]['msg']}") from error
    return fields


def throughput(info: WorkloadInfo | None, step: DurationStatistics | None) -> list[Throughput]:
    if info is None or step is None or step.low_ns <= 0 or info.batch_size is None:
        return []
    amounts: dict[Literal["samples", "tokens"], int] = {"samples": info.batch_size * info.grad_accum}
    if info.seq_len:
        amounts["tokens"] = amounts["samples"] * info.seq_len
    return [
        Throughput(
            unit=unit,
            per_second=amount * 1e9 / step.median_ns,
            low=amount * 1e9 / step.high_ns,
            high=amount * 1e9 / step.low_ns,
        )
        for unit, amount in amounts.items()
    ]
