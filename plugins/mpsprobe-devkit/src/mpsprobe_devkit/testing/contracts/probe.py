"""What a probe has to keep to, on a device that knows nothing of it."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from mpsprobe.declarations import ProbeDeclaration
from mpsprobe.engine.request import ProfileRequest
from mpsprobe.engine.session import Session
from mpsprobe.errors import MpsprobeError
from mpsprobe.protocols import Device, Probe, RunOptions, Steps, Workload
from mpsprobe.suggestions import an
from mpsprobe_devkit.testing.contracts.clauses import Broken, Contract, described, doing
from mpsprobe_devkit.testing.contracts.leaving import refuse_threads, refuse_traces
from mpsprobe_devkit.testing.contracts.subjects import Made, refuse_unless
from mpsprobe_devkit.testing.fakes import FakeProgress

STEPS = 3
TICK_NS = 10_000_000  # of the session's clock at each look, so that a probe that wants seconds gets them at once


@dataclass
class ProbeSubject:
    """A probe under test.

    Attributes:
        declaration: what it declares.
        made: makes it, or gives the one that there is.
        device: makes the device that it measures on.
        workload: what the device runs.
        strict: the device is one where it can measure; on a fake it may say afterwards that there was nothing.
    """

    declaration: ProbeDeclaration
    made: Made
    device: Callable[[], Device]
    workload: Workload
    strict: bool

    def usable(self) -> tuple[Any, Device] | None:
        """A probe and a device that it can measure on; ``None`` where it says that it cannot."""
        probe, device = self.made(), self.device()
        with doing("unavailable(device)"):
            if probe.unavailable(device) is not None:
                return None
        return (probe, device) if self.strict or self._finds_something(probe, device) else None

    def _finds_something(self, probe: Any, device: Device) -> bool:
        """Whether it finds anything in steps that compute nothing; a clause reports errors of another kind."""
        with self.opened(device) as steps:
            try:
                self.measured(probe, device, steps)
            except Broken as broken:
                return not isinstance(broken.__cause__, MpsprobeError)
        return True

    @contextmanager
    def opened(self, device: Device) -> Iterator[Steps]:
        """Steps on ``device``, closed afterwards."""
        steps = device.open(self.workload, RunOptions())
        try:
            yield steps
        finally:
            steps.close()

    def measured(self, probe: Any, device: Device, steps: Steps) -> Mapping[str, Any]:
        """What ``probe`` finds over a few steps, by itself."""
        with doing("start(device, steps)"):
            probe.start(device, steps)
        for _ in range(STEPS):
            steps.step()
            device.synchronize()
            with doing("sample()"):
                probe.sample()
        with doing("stop()"):
            found: Mapping[str, Any] = probe.stop()
        return found


PROBE: Contract[ProbeSubject] = Contract("probe")


@PROBE.clause(rested_on=True)
def is_what_it_declares(subject: ProbeSubject) -> None:
    """The target is a probe of the declared name, or a class of them; ``disturbs`` is True or False."""
    probe = subject.made()
    wanted = ("name", "disturbs", "unavailable", "start", "sample", "stop")
    refuse_unless(
        isinstance(probe, Probe),
        f"it is {an(type(probe).__name__)}, which has no {', '.join(one for one in wanted if not hasattr(probe, one))}",
    )
    name = subject.declaration.name
    refuse_unless(probe.name == name, f"its name is {probe.name!r}, and it declares {name!r}")
    refuse_unless(isinstance(probe.disturbs, bool), f"disturbs is {probe.disturbs!r}, neither True nor False")
    for attribute, least in (("shortest_ns", 0), ("steps", 1)):
        value = getattr(probe, attribute, least)
        refuse_unless(
            isinstance(value, (int, float)) and value >= least, f"{attribute} is {value!r}, no number from {least} on"
        )


@PROBE.clause()
def says_where_it_cannot_measure(subject: ProbeSubject) -> None:
    """``unavailable`` gives ``None`` or a sentence on one line, for any device, and never raises."""
    before = set(threading.enumerate())
    for device in (subject.device(), _Unaware()):
        with doing(f"unavailable() for a device of the class {type(device).__name__}"):
            reason = subject.made().unavailable(device)
        sentence = isinstance(reason, str) and bool(reason.strip()) and len(reason.splitlines()) == 1
        refuse_unless(reason is None or sentence, f"unavailable() gives {reason!r}, neither None nor a sentence")
    refuse_threads("asking unavailable()", before)


@PROBE.clause(rested_on=True)
def fills_fields_of_the_report(subject: ProbeSubject) -> None:
    """In a session it finds fields of ``ProfileCell`` that are its to fill, with what a report can hold."""
    usable = subject.usable()
    if usable is None:
        return
    probe, device = usable
    clock = itertools.count(0, TICK_NS)
    with subject.opened(device) as steps:
        session = Session(device, [probe], clock=lambda: next(clock))
        measured = session.measure(steps, ProfileRequest(steps=STEPS, warmup=1), FakeProgress())
    if measured.error is not None:
        raise Broken(f"with it running, a step raised {described(measured.error)}") from measured.error
    for one in measured.unavailable:
        raise Broken(f"it said that it can measure, and then: {one.reason}")
    refuse_unless(bool(measured.found), "it found nothing at all: say in unavailable() why it cannot measure")


@PROBE.clause()
def can_be_used_again(subject: ProbeSubject) -> None:
    """After ``stop`` it can be started again, and finds the same fields."""
    usable = subject.usable()
    if usable is None:
        return
    probe, device = usable
    with subject.opened(device) as steps:
        first = subject.measured(probe, device, steps)
        try:
            second = subject.measured(probe, device, steps)
        except Broken as broken:
            raise Broken(f"used a second time: {broken}") from broken.__cause__
    refuse_unless(set(first) == set(second), f"it found {sorted(first)} at first, and {sorted(second)} the second time")
    longer = [name for name in first if _length(second[name]) > _length(first[name])]
    refuse_unless(not longer, f"its {', '.join(longer)} of the second time has what it found at first, too")


@PROBE.clause()
def survives_no_step_at_all(subject: ProbeSubject) -> None:
    """Stopped without a sample (the first step failed) it gives what it has, or says what is missing."""
    usable = subject.usable()
    if usable is None:
        return
    probe, device = usable
    with subject.opened(device) as steps:
        with doing("start(device, steps)"):
            probe.start(device, steps)
        try:
            found = probe.stop()
        except MpsprobeError:
            return
        except Exception as error:
            raise Broken(f"without a sample, stop() raised {described(error)}, not a MpsprobeError") from error
    refuse_unless(
        isinstance(found, Mapping), f"without a sample, stop() gave {an(type(found).__name__)}, not a mapping"
    )


@PROBE.clause()
def can_be_stopped_twice(subject: ProbeSubject) -> None:
    """A second ``stop`` gives something or says that it is stopped; it leaves nothing running either way."""
    usable = subject.usable()
    if usable is None:
        return
    probe, device = usable
    before = set(threading.enumerate())
    with subject.opened(device) as steps:
        subject.measured(probe, device, steps)
        try:
            probe.stop()
        except MpsprobeError:
            pass
        except Exception as error:
            raise Broken(f"stopped a second time it raised {described(error)}, instead of a MpsprobeError") from error
    refuse_threads("a second stop()", before)


@PROBE.clause()
def cleans_up_after_a_failed_start(subject: ProbeSubject) -> None:
    """Where ``start`` raised half way, ``stop`` ends what goes on running, and it can be used again."""
    usable = subject.usable()
    if usable is None:
        return
    probe, device = usable
    before = set(threading.enumerate())
    with suppress(Exception):
        probe.start(device, _Broken())
    with suppress(Exception):  # its answer is thrown away
        probe.stop()
    refuse_threads("a start() that raised, and stop() after it,", before)
    with subject.opened(device) as steps:
        try:
            subject.measured(probe, device, steps)
        except Broken as broken:
            raise Broken(f"after a start() that raised: {broken}") from broken.__cause__


@PROBE.clause()
def leaves_the_process_alone(subject: ProbeSubject) -> None:
    """After ``stop`` no thread of it runs, nothing of the process has changed, and nothing was printed."""
    usable = subject.usable()
    if usable is None:
        return
    probe, device = usable
    with subject.opened(device) as steps:
        refuse_traces("measuring", lambda: subject.measured(probe, device, steps), random_numbers=False)


def _length(value: Any) -> int:
    return len(value) if isinstance(value, list) else 0


class _Unaware:
    """A device of a kind that no probe has heard of, with what the protocol asks for and nothing more."""

    name = "unheard-of"

    def unavailable(self) -> str | None:
        return None

    def describe(self) -> Any:
        raise MpsprobeError("it does not tell")

    def open(self, workload: Workload, options: RunOptions, *, compiled: bool = False) -> Any:
        raise MpsprobeError(f"it runs nothing, {workload.name} neither")

    def synchronize(self) -> None:
        raise RuntimeError("the device is lost")

    def is_out_of_memory(self, error: BaseException) -> bool:
        del error
        return False


class _Broken:
    """Steps that cannot be looked at."""

    @property
    def info(self) -> Any:
        raise RuntimeError("the steps are gone")

    model = info

    def step(self) -> None:
        raise RuntimeError("the steps are gone")

    def phases(self) -> Any:
        raise RuntimeError("the steps are gone")

    def close(self) -> None:
        """Nothing to give back."""
