"""Each clause of the contracts for devices and runners can be broken, and sound ones break none."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
from sound_objects import Runs

from mpsprobe.declarations import DeviceDeclaration, RunnerDeclaration
from mpsprobe.errors import MpsprobeError
from mpsprobe.protocols import Device, RunOptions, Workload
from mpsprobe.schemas import DeviceInfo
from mpsprobe_devkit.testing import FakeDevice, FakeSteps, FakeWorkload
from mpsprobe_devkit.testing.contracts.device import DEVICE, DeviceSubject
from mpsprobe_devkit.testing.contracts.runner import RUNNER, RunnerSubject
from mpsprobe_devkit.testing.contracts.subjects import given


def broken(device: Any) -> dict[str, str]:
    """The clauses that a device breaks, with what is said."""
    subject = DeviceSubject(DeviceDeclaration("fake", "x:y", "under test"), given(device), FakeWorkload())
    return {one.clause: one.problem for one in DEVICE.broken(subject)}


def broken_runner(runner: Any, device: Any = FakeDevice, phases: tuple[str, ...] = ("training",)) -> dict[str, str]:
    """The clauses that a runner breaks, with what is said."""
    declaration = RunnerDeclaration("fake", "x:y", "under test", phases)
    subject = RunnerSubject(declaration, given(runner), device, FakeWorkload())
    return {one.clause: one.problem for one in RUNNER.broken(subject)}


def test_sound_ones_break_nothing() -> None:
    assert broken(FakeDevice) == {}
    assert broken(FakeDevice(reason="it is not plugged in")) == {}
    assert broken_runner(Runs) == {}
    assert broken_runner(Runs, lambda: FakeDevice("other")) == {}


class NoDevice:
    name = "fake"


class Moody(FakeDevice):
    asked = 0

    def unavailable(self) -> str | None:
        Moody.asked += 1
        return "not now" if Moody.asked % 2 else None


class RefusesAtLength(FakeDevice):
    def unavailable(self) -> str | None:
        return "no\nnot here"


class OfAnotherType(FakeDevice):
    def describe(self) -> DeviceInfo:
        return DeviceInfo(type="gpu", name="A GPU")


class Nameless(FakeDevice):
    def describe(self) -> DeviceInfo:
        return DeviceInfo(type="fake", name=" ")


class DescribesInWords(FakeDevice):
    def describe(self) -> Any:
        return "a device"


@dataclass
class OwnSteps(FakeDevice):
    """Opens steps of a class of the test."""

    kind: type[FakeSteps] = FakeSteps

    def open(self, workload: Workload, options: RunOptions, *, compiled: bool = False) -> FakeSteps:
        opened = super().open(workload, options, compiled=compiled)
        return self.kind(opened.clock, info=opened.info)


class Once(FakeSteps):
    def step(self) -> None:
        if self.taken:
            raise RuntimeError("the graph is gone")
        super().step()


class InSeconds(FakeSteps):
    def phases(self) -> Mapping[str, Any]:
        return {"forward": 0.001}


class NoForward(FakeSteps):
    def phases(self) -> Mapping[str, int]:
        return {"all": 1}


class ClosesOnce(FakeSteps):
    def close(self) -> None:
        super().close()
        if self.closed > 1:
            raise AttributeError("'NoneType' object has no attribute 'free'")


class Sampling(FakeSteps):
    def step(self) -> None:
        super().step()
        threading.Thread(target=threading.Event().wait, args=(2.5,), name="queue", daemon=True).start()


class OpensNothing(FakeDevice):
    def open(self, workload: Workload, options: RunOptions, *, compiled: bool = False) -> Any:
        super().open(workload, options, compiled=compiled)
        return SimpleNamespace(close=lambda: None)


class OfAnother(OwnSteps):
    def open(self, workload: Workload, options: RunOptions, *, compiled: bool = False) -> FakeSteps:
        opened = super().open(workload, options, compiled=compiled)
        opened.info = opened.info.model_copy(update={"name": "another"})
        return opened


class AlwaysInference(FakeDevice):
    def open(self, workload: Workload, options: RunOptions, *, compiled: bool = False) -> FakeSteps:
        return super().open(workload, RunOptions(), compiled=compiled)


class Wraps(FakeDevice):
    def open(self, workload: Workload, options: RunOptions, *, compiled: bool = False) -> FakeSteps:
        try:
            return super().open(workload, options, compiled=compiled)
        except MpsprobeError as error:
            raise RuntimeError("it failed") from error


class Swallows(FakeDevice):
    def open(self, workload: Workload, options: RunOptions, *, compiled: bool = False) -> FakeSteps:
        try:
            return super().open(workload, options, compiled=compiled)
        except MpsprobeError:
            return FakeSteps(self.clock)


class AlwaysFull(FakeDevice):
    def is_out_of_memory(self, error: BaseException) -> bool:
        return True


class Maybe(FakeDevice):
    def is_out_of_memory(self, error: BaseException) -> Any:
        return str(error) or None


class WithAClock(FakeDevice):
    def clock_unavailable(self) -> str | None:
        return None

    def stopwatch(self) -> Any:
        return SimpleNamespace(start=lambda: None, stop=lambda: float("nan"))


class WithAnExcuse(FakeDevice):
    def clock_unavailable(self) -> str | None:
        return ""


CASES: list[tuple[Any, str, str]] = [
    (NoDevice, "is_what_it_declares", "'unavailable', 'describe', 'open', 'synchronize' and 'is_out_of_memory'"),
    (FakeDevice("other"), "is_what_it_declares", "its name is 'other'"),
    (Moody, "says_why_it_cannot_be_used", "gives 'not now', then None"),
    (RefusesAtLength, "says_why_it_cannot_be_used", "neither None nor a sentence"),
    (OfAnotherType, "describes_itself", "the type 'gpu'"),
    (Nameless, "describes_itself", "an empty name"),
    (DescribesInWords, "describes_itself", "a str, not a DeviceInfo"),
    (OpensNothing, "opens_and_steps", "lacks a part of Steps"),
    (OfAnother, "opens_and_steps", "the workload 'another'"),
    (AlwaysInference, "opens_and_steps", "opened for training, its steps' info says 'inference'"),
    (OwnSteps(kind=Once), "opens_and_steps", "step 2 raised RuntimeError: the graph is gone"),
    (OwnSteps(kind=InSeconds), "tells_phases_apart", "0.001 for 'forward': ns"),
    (OwnSteps(kind=NoForward), "tells_phases_apart", "without 'forward'"),
    (OwnSteps(kind=ClosesOnce), "closes_more_than_once", "close(), a second time, raised AttributeError"),
    (Wraps, "passes_errors_on", "comes out of open() as RuntimeError"),
    (Swallows, "passes_errors_on", "could not be built"),
    (AlwaysFull, "tells_out_of_memory", "takes a ValueError for it"),
    (Maybe, "tells_out_of_memory", "neither True nor False"),
    (WithAClock, "has_a_clock_or_says_why_not", "its stopwatch says nan ns"),
    (WithAnExcuse, "has_a_clock_or_says_why_not", "neither None nor a sentence"),
    (OwnSteps(kind=Sampling), "leaves_the_process_alone", "'queue'"),
]


@pytest.mark.parametrize(("device", "clause", "says"), CASES, ids=lambda one: getattr(one, "__name__", None))
def test_each_clause_for_devices_can_be_broken(device: Any, clause: str, says: str) -> None:
    found = broken(device)
    assert set(found) == {clause} and says in found[clause], found


class NoRunner:
    name = "fake"


class Shrugs(Runs):
    def unavailable(self, device: Device) -> Any:
        return False


class Hides(Runs):
    def open(self, workload: Workload, options: RunOptions, device: Any, *, compiled: bool = False) -> Any:
        try:
            return super().open(workload, options, device, compiled=compiled)
        except MpsprobeError as error:
            raise ValueError("the trainer failed") from error


class Other(Runs):
    name = "other"


RUNNERS: list[tuple[Any, dict[str, Any], str, str]] = [
    (NoRunner, {}, "is_what_it_declares", "'unavailable' and 'open'"),
    (Other, {}, "is_what_it_declares", "its name is 'other'"),
    (Runs, {"phases": ()}, "is_what_it_declares", "its phases are ()"),
    (Shrugs, {}, "says_where_it_cannot_run", "gives False"),
    (Runs, {"device": AlwaysInference}, "opens_and_steps", "opened for training"),
    (Runs, {"device": lambda: OwnSteps(kind=NoForward)}, "tells_phases_apart", "without 'forward'"),
    (Runs, {"device": lambda: OwnSteps(kind=ClosesOnce)}, "closes_more_than_once", "a second time"),
    (Hides, {}, "passes_errors_on", "ValueError: the trainer failed"),
    (Runs, {"device": lambda: OwnSteps(kind=Sampling)}, "leaves_the_process_alone", "'queue'"),
]


@pytest.mark.parametrize(("runner", "more", "clause", "says"), RUNNERS)
def test_each_clause_for_runners_can_be_broken(runner: Any, more: dict[str, Any], clause: str, says: str) -> None:
    found = broken_runner(runner, **more)
    assert set(found) == {clause} and says in found[clause], found
