"""Each clause of the contracts for devices, runners and probes can be broken, and sound ones break none."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from mpsprobe.errors import MpsprobeError
from mpsprobe.protocols import RunOptions
from mpsprobe.schemas import DeviceInfo, ProbeReading
from mpsprobe_devkit.testing import (
    FakeDevice,
    FakeProbe,
    FakeSteps,
    FakeWorkload,
    device_contract,
    probe_contract,
    runner_contract,
)


def of(parent: Any, **methods: Any) -> Any:
    """A subclass with these methods."""
    return type("Changed", (parent,), methods)


def broken(suite: Any) -> dict[str, str]:
    """The clauses that are broken, with what is said."""
    return {one.clause: one.problem for one in suite.broken()}


def device(thing: Any) -> Any:
    """The contract of a device."""
    return device_contract(thing, workload=FakeWorkload())


class Runs:
    """A sound runner: it leaves all to the device."""

    name = "fake"

    def unavailable(self, device: Any) -> str | None:
        return None if device.name == "fake" else "it runs on the fake device alone"

    def open(self, workload: Any, options: RunOptions, device: Any, *, compiled: bool = False) -> Any:
        return device.open(workload, options, compiled=compiled)


class Counting(FakeProbe):
    """A sound probe: it counts anew each time, and says so where there was nothing."""

    ended: threading.Event | None = None

    def start(self, device: Any, steps: Any) -> None:
        super().start(device, steps)
        self.samples = 0

    def stop(self) -> Any:
        if not self.samples:
            raise MpsprobeError("no step came to its end")
        return super().stop()


def runner(thing: Any = Runs, device: Any = FakeDevice, **more: Any) -> Any:
    """The contract of a runner."""
    return runner_contract(thing, device=device, workload=FakeWorkload(), **more)


def probe(thing: Any, device: Any = FakeDevice) -> Any:
    """The contract of a probe on a device on which it can measure."""
    return probe_contract(thing, device=device)


@pytest.mark.parametrize(
    "suite",
    [
        *map(device, (FakeDevice, FakeDevice(reason="it is not plugged in"))),
        *(runner(), runner(device=lambda: FakeDevice("other"))),
        *map(probe, (Counting, FakeProbe, Counting(reason="no such counter here"))),
    ],
)
def test_sound_ones_break_nothing(suite: Any) -> None:
    assert broken(suite) == {}


def thread(seconds: float = 2.5) -> threading.Event:
    """A thread that goes on for a while, or until it is ended."""
    ended = threading.Event()
    threading.Thread(target=ended.wait, args=(seconds,), name="sampling", daemon=True).start()
    return ended


def steps(**methods: Any) -> Any:
    """A device whose steps have these methods."""
    own = of(FakeSteps, **methods)

    def open_steps(self: Any, workload: Any, options: RunOptions, *, compiled: bool = False) -> Any:
        made = FakeDevice.open(self, workload, options)
        return own(made.clock, info=made.info)

    return of(FakeDevice, open=open_steps)


def opening(change: Any) -> Any:
    """A device that opens something else."""
    return of(FakeDevice, open=lambda self, workload, options, compiled=False: change(self, workload, options))


def _once(self: Any) -> None:
    if self.taken:
        raise RuntimeError("the graph is gone")
    FakeSteps.step(self)


def _close_once(self: Any) -> None:
    self.closed += 1
    if self.closed > 1:
        raise AttributeError("'NoneType' object has no attribute 'free'")


def _hiding(open_steps: Any) -> Any:
    def hidden(self: Any, workload: Any, options: RunOptions, *others: Any, compiled: bool = False) -> Any:
        try:
            return open_steps(self, workload, options, *others)
        except MpsprobeError as error:
            raise ValueError("it failed") from error

    return hidden


def _swallowing(self: Any, workload: Any, options: RunOptions) -> Any:
    try:
        return FakeDevice.open(self, workload, options)
    except MpsprobeError:
        return FakeSteps(self.clock)


def _moody(self: Any, asked: list[int] = []) -> str | None:  # noqa: B006 - that it is kept is the point
    asked.append(1)
    return "not now" if len(asked) % 2 else None


IN_SECONDS = steps(phases=lambda self: {"forward": 0.001})
NO_FORWARD = steps(phases=lambda self: {"all": 1})
CLOSES_ONCE = steps(close=_close_once)
SAMPLES = steps(step=lambda self: thread() and FakeSteps.step(self))
INFERENCE = opening(lambda self, workload, options: FakeDevice.open(self, workload, RunOptions()))
ANOTHER = opening(lambda self, workload, options: FakeDevice.open(self, FakeWorkload("another"), options))


class AsksTheDevice(Counting):
    def unavailable(self, device: Any) -> str | None:
        device.describe()
        return None


class OnlyOnce(Counting):
    used = False

    def start(self, device: Any, steps: Any) -> None:
        super().start(device, steps)
        if self.used:
            raise RuntimeError("it is used up")
        self.used = True


class Piles(FakeProbe):
    def stop(self) -> Any:
        self.found = [*getattr(self, "found", []), ProbeReading(probe="fake", values={"steps": 1.0})]
        return {"readings": list(self.found)}


class LeavesItsThread(Counting):
    """Starts its thread before it looks at the steps, and remembers it after."""

    def start(self, device: Any, steps: Any) -> None:
        ended = thread()
        assert steps.info
        self.ended = ended
        super().start(device, steps)

    def stop(self) -> Any:
        if self.ended is not None:
            self.ended.set()
        return super().stop()


def finding(found: Any) -> Any:
    """A probe that finds this."""
    return of(Counting, stop=lambda self: Counting.stop(self) and found)


def starting(action: Any) -> Any:
    """A probe that does something more at its start."""

    def start(self: Any, device: Any, steps: Any) -> None:
        Counting.start(self, device, steps)
        action(steps)

    return of(Counting, start=start)


def _mean(self: Any) -> Any:
    return {"readings": [ProbeReading(probe="fake", values={"mean_ns": 1 / self.samples})]}


CASES: list[tuple[Any, str, str]] = [
    (device(SimpleNamespace(name="fake")), "is_what_it_declares", "'unavailable', 'describe', 'open', 'synchronize'"),
    (device(of(FakeDevice, unavailable=_moody)), "says_why_it_cannot_be_used", "gives 'not now', then None"),
    (device(FakeDevice(reason="no\nnot here")), "says_why_it_cannot_be_used", "neither None nor a sentence"),
    (
        device(of(FakeDevice, describe=lambda self: DeviceInfo(type="gpu", name="A GPU"))),
        "describes_itself",
        "the type 'gpu'",
    ),
    (
        device(of(FakeDevice, describe=lambda self: DeviceInfo(type="fake", name=" "))),
        "describes_itself",
        "an empty name",
    ),
    (device(of(FakeDevice, describe=lambda self: "a device")), "describes_itself", "a str, not a DeviceInfo"),
    (device(of(FakeDevice, is_out_of_memory=lambda self, e: True)), "tells_out_of_memory", "a ValueError for it"),
    (device(of(FakeDevice, is_out_of_memory=lambda self, e: None)), "tells_out_of_memory", "neither True nor False"),
    (device(opening(lambda *_: SimpleNamespace(close=lambda: None))), "opens_and_steps", "lacks a part of Steps"),
    (device(ANOTHER), "opens_and_steps", "its steps' info says 'another'"),
    (device(INFERENCE), "opens_and_steps", "and 'training', its steps' info says 'fake' and 'inference'"),
    (device(steps(step=_once)), "opens_and_steps", "raised RuntimeError: the graph is gone"),
    (device(IN_SECONDS), "tells_phases_apart", "0.001"),
    (device(NO_FORWARD), "tells_phases_apart", "without 'forward'"),
    (device(CLOSES_ONCE), "closes_more_than_once", "raised AttributeError"),
    (device(of(FakeDevice, open=_hiding(FakeDevice.open))), "passes_errors_on", "open() gives ValueError"),
    (device(opening(_swallowing)), "passes_errors_on", "open() gives 'steps'"),
    (device(SAMPLES), "leaves_the_process_alone", "'sampling'"),
    (runner(SimpleNamespace(name="fake")), "is_what_it_declares", "'unavailable' and 'open'"),
    (runner(phases=()), "is_what_it_declares", "its phases are ()"),
    (runner(of(Runs, unavailable=lambda self, d: False)), "says_where_it_cannot_run", "gives False"),
    (runner(device=INFERENCE), "opens_and_steps", "and 'training', its"),
    (runner(device=NO_FORWARD), "tells_phases_apart", "without 'forward'"),
    (runner(of(Runs, open=_hiding(Runs.open))), "passes_errors_on", "gives ValueError('it failed')"),
    (probe(SimpleNamespace(name="fake", disturbs=False)), "is_what_it_declares", "'unavailable', 'start', 'sample'"),
    (probe(Counting(disturbs="a little")), "is_what_it_declares", "disturbs is 'a little'"),  # type: ignore[arg-type]
    (probe(AsksTheDevice), "says_where_it_cannot_measure", "raised MpsprobeError"),
    (
        probe(of(Counting, unavailable=lambda self, d: thread() and None)),
        "says_where_it_cannot_measure",
        "'sampling' and",
    ),
    (probe(finding({"steps": []})), "fills_fields_of_the_report", "'steps', which a probe must not fill"),
    (probe(finding({"temperature": 3})), "fills_fields_of_the_report", "'temperature'"),
    (probe(finding({"readings": [{"probe": "fake"}]})), "fills_fields_of_the_report", "its readings cannot be"),
    (probe(finding({})), "fills_fields_of_the_report", "found nothing at all"),
    (probe(starting(lambda steps: setattr(steps, "step", None))), "fills_fields_of_the_report", "TypeError"),
    (probe(Counting(fails_in="sample")), "fills_fields_of_the_report", "no sample today"),
    (probe(OnlyOnce), "can_be_used_again", "it is used up"),
    (probe(Piles), "can_be_used_again", "has what it found at first, too"),
    (probe(of(Counting, stop=_mean)), "stops_at_any_time", "ZeroDivisionError"),
    (probe(LeavesItsThread), "cleans_up_after_a_failed_start", "leaves a thread running: 'sampling'"),
    (probe(starting(lambda steps: thread())), "leaves_the_process_alone", "leaves a thread running"),
    (
        probe(starting(lambda steps: gc.set_threshold(gc.get_threshold()[0] + 1))),
        "leaves_the_process_alone",
        "garbage collection",
    ),
]
ALSO = {
    "it is used up": {"cleans_up_after_a_failed_start", "leaves_the_process_alone"},
    "'sampling' and": {"stops_at_any_time", "cleans_up_after_a_failed_start"},
    "leaves a thread running": {"stops_at_any_time", "cleans_up_after_a_failed_start"},
}


@pytest.mark.parametrize(("suite", "clause", "says"), CASES)
def test_each_clause_can_be_broken(suite: Any, clause: str, says: str) -> None:
    found = broken(suite)
    assert says in found[clause], found
    assert set(found) - ALSO.get(says, set()) == {clause}, found


def test_on_a_fake_device_a_probe_may_say_that_there_was_nothing() -> None:
    class Nothing(Counting):
        def stop(self) -> Any:
            raise MpsprobeError("the steps call no operator")

    assert broken(probe_contract(Nothing)) == {}
    assert "no operator" in broken(probe(Nothing))["fills_fields_of_the_report"]


@pytest.fixture(autouse=True)
def thresholds() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)
