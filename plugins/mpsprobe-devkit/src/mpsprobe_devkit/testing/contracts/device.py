"""What a device has to keep to, and the steps that it opens."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from mpsprobe.declarations import PHASES, DeviceDeclaration
from mpsprobe.errors import MpsprobeError
from mpsprobe.protocols import Device, RunOptions, Steps, Workload
from mpsprobe.schemas import DeviceInfo, WorkloadInfo
from mpsprobe.suggestions import an
from mpsprobe_devkit.testing.contracts.clauses import Broken, Contract, described, doing, listed
from mpsprobe_devkit.testing.contracts.leaving import refuse_traces
from mpsprobe_devkit.testing.contracts.subjects import Made, refuse_unless
from mpsprobe_devkit.testing.fakes import FakeWorkload


@dataclass
class DeviceSubject:
    """A device under test.

    Attributes:
        declaration: what it declares.
        made: makes it, or gives the one that there is.
        workload: what it is asked to run.
    """

    declaration: DeviceDeclaration
    made: Made
    workload: Workload

    def there(self) -> Any:
        """The device, or ``None`` where it says that it cannot be used here: then nothing more can be tested."""
        device = self.made()
        with doing("unavailable()"):
            return device if device.unavailable() is None else None

    @contextmanager
    def opened(self, device: Any, phase: str = "inference") -> Iterator[Steps]:
        """Steps of the workload, closed afterwards."""
        with doing(f"open() for {phase}"):
            steps = device.open(self.workload, RunOptions(phase=phase))
        with closed_after(steps):
            yield steps


@contextmanager
def closed_after(steps: Steps) -> Iterator[None]:
    """Closes ``steps``; a failure to do so is a broken clause, unless something else was raised first."""
    try:
        yield
    except BaseException:
        with suppress(Exception):  # what was raised first says more
            steps.close()
        raise
    with doing("close()"):
        steps.close()


DEVICE: Contract[DeviceSubject] = Contract("device")


@DEVICE.clause(rested_on=True)
def is_what_it_declares(subject: DeviceSubject) -> None:
    """The target is a device of the declared name, or a class of them that is made without arguments."""
    device = subject.made()
    wanted = ("name", "unavailable", "describe", "open", "synchronize", "is_out_of_memory")
    missing = [one for one in wanted if not hasattr(device, one)]
    refuse_unless(isinstance(device, Device), f"it is {an(type(device).__name__)}, which has no {listed(missing)}")
    name = subject.declaration.name
    refuse_unless(device.name == name, f"its name is {device.name!r}, and it declares {name!r}")


@DEVICE.clause()
def says_why_it_cannot_be_used(subject: DeviceSubject) -> None:
    """``unavailable`` gives ``None`` or a sentence on one line, the same each time, and never raises."""
    with doing("unavailable()"):
        first, second = subject.made().unavailable(), subject.made().unavailable()
    _refuse_no_sentence("unavailable()", first)
    refuse_unless(first == second, f"unavailable() gives {first!r}, then {second!r}")


@DEVICE.clause()
def describes_itself(subject: DeviceSubject) -> None:
    """Where it can be used, ``describe`` gives a ``DeviceInfo`` of its name that JSON can hold."""
    device = subject.there()
    if device is None:
        return
    with doing("describe()"):
        info = device.describe()
    refuse_unless(isinstance(info, DeviceInfo), f"describe() gives {an(type(info).__name__)}, not a DeviceInfo")
    refuse_unless(info.type == device.name, f"describe() says the type {info.type!r}, and its name is {device.name!r}")
    refuse_unless(bool(info.name.strip()), "describe() gives an empty name: say what it is, as a person calls it")
    with doing("writing what describe() gives as JSON"):
        same = DeviceInfo.model_validate(json.loads(info.model_dump_json()))
    refuse_unless(same == info, "what describe() gives is not the same when it is read back from JSON")


@DEVICE.clause(rested_on=True)
def opens_and_steps(subject: DeviceSubject) -> None:
    """Where it can be used, it opens a workload for inference and for training, and steps it again and again."""
    device = subject.there()
    for phase in PHASES if device is not None else ():
        with subject.opened(device, phase) as steps:
            refuse_steps(steps, subject.workload.name, phase)
            step_often(steps, device)


@DEVICE.clause()
def tells_phases_apart(subject: DeviceSubject) -> None:
    """``phases`` of its steps gives whole nanoseconds by phase, ``forward`` among them."""
    device = subject.there()
    for phase in PHASES if device is not None else ():
        with subject.opened(device, phase) as steps:
            refuse_phases(steps)


@DEVICE.clause()
def closes_more_than_once(subject: DeviceSubject) -> None:
    """``close`` of its steps may be called again, also when a step was never taken."""
    device = subject.there()
    if device is not None:
        with subject.opened(device) as steps:
            close_twice(steps)


@DEVICE.clause()
def passes_errors_on(subject: DeviceSubject) -> None:
    """What a workload says when it cannot be built arrives as it is; what it cannot run is refused in words."""
    device = subject.there()
    if device is not None:
        refuse_swallowed(lambda workload: device.open(workload, RunOptions()))


@DEVICE.clause()
def tells_out_of_memory(subject: DeviceSubject) -> None:
    """``is_out_of_memory`` gives True or False for any exception, and False for one that has nothing to do with it."""
    for error in (ValueError("shapes differ"), KeyboardInterrupt(), MemoryError(), RuntimeError()):
        with doing(f"is_out_of_memory({type(error).__name__})"):
            told_so = subject.made().is_out_of_memory(error)
        refuse_unless(isinstance(told_so, bool), f"is_out_of_memory gives {told_so!r}, neither True nor False")
        refuse_unless(
            not told_so or isinstance(error, (MemoryError, RuntimeError)),
            f"is_out_of_memory takes {an(type(error).__name__)} for it",
        )


@DEVICE.clause()
def has_a_clock_or_says_why_not(subject: DeviceSubject) -> None:
    """Where it has ``clock_unavailable``, that gives a sentence, or ``stopwatch`` gives one that times."""
    device = subject.there()
    asked = getattr(device, "clock_unavailable", None)
    if device is None or asked is None:
        return
    with doing("clock_unavailable()"):
        reason = asked()
    _refuse_no_sentence("clock_unavailable()", reason)
    if reason is None:
        with subject.opened(device) as steps, doing("its stopwatch"):
            stopwatch = device.stopwatch()
            stopwatch.start()
            steps.step()
            spent = stopwatch.stop()
        refuse_unless(
            isinstance(spent, (int, float)) and math.isfinite(spent) and spent >= 0, f"its stopwatch says {spent!r} ns"
        )


@DEVICE.clause()
def leaves_the_process_alone(subject: DeviceSubject) -> None:
    """Opening, stepping and closing leaves no thread, changes nothing of the process, and prints nothing."""
    device = subject.there()
    if device is None:
        return

    def once() -> None:
        with subject.opened(device) as steps:
            step_often(steps, device)

    refuse_traces("opening, stepping and closing", once, random_numbers=False)


def refuse_steps(steps: Any, name: str, phase: str) -> None:
    """``steps`` are ``Steps`` of the workload called ``name``, for ``phase``; raises ``Broken`` otherwise."""
    refuse_unless(isinstance(steps, Steps), f"open() gives {an(type(steps).__name__)}, which lacks a part of Steps")
    info = steps.info
    refuse_unless(isinstance(info, WorkloadInfo), f"its steps' info is {an(type(info).__name__)}, not a WorkloadInfo")
    refuse_unless(info.name == name, f"its steps' info says the workload {info.name!r}, and it was {name!r}")
    refuse_unless(info.phase == phase, f"opened for {phase}, its steps' info says {info.phase!r}")


def step_often(steps: Any, device: Any) -> None:
    """Three steps, each synchronised; raises ``Broken`` where one raises."""
    for number in range(1, 4):
        with doing(f"step {number}"):
            steps.step()
        with doing("synchronize()"):
            device.synchronize()


def refuse_phases(steps: Any) -> None:
    """``phases()`` gives what the protocol says; raises ``Broken`` otherwise."""
    with doing("phases()"):
        found = steps.phases()
    refuse_unless(isinstance(found, Mapping) and "forward" in found, f"phases() gives {found!r}, without 'forward'")
    for name, spent in found.items():
        whole = isinstance(spent, int) and not isinstance(spent, bool) and spent >= 0
        refuse_unless(whole, f"phases() says {spent!r} for {name!r}: ns, a whole number")


def close_twice(steps: Any) -> None:
    """``close()`` twice; raises ``Broken`` where it raises."""
    with doing("close()"):
        steps.close()
    with doing("close(), a second time,"):
        steps.close()


class Unbuildable(MpsprobeError):
    """What a workload raises that cannot be built."""


class _CannotBeBuilt(FakeWorkload):
    def build(self, options: RunOptions) -> Any:
        """Raises."""
        del options
        raise Unbuildable("it cannot be built today", "Ask again tomorrow.")


def refuse_swallowed(open_steps: Any) -> None:
    """``open_steps(workload)`` lets a workload's own error through; raises ``Broken`` otherwise."""
    try:
        steps = open_steps(_CannotBeBuilt())
    except Unbuildable:
        return
    except Exception as error:
        raise Broken(f"a workload's own error comes out of open() as {described(error)}") from error
    steps.close()
    raise Broken("open() gives steps of a workload that could not be built")


def _refuse_no_sentence(what: str, reason: Any) -> None:
    sentence = isinstance(reason, str) and bool(reason.strip()) and len(reason.splitlines()) == 1
    refuse_unless(reason is None or sentence, f"{what} gives {reason!r}, neither None nor a sentence on one line")
