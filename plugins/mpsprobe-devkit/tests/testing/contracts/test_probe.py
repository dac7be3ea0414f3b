"""Each clause of the contract for probes can be broken, and a sound probe breaks none."""

from __future__ import annotations

import gc
import threading
from collections.abc import Mapping
from typing import Any

import pytest

from mpsprobe.declarations import ProbeDeclaration
from mpsprobe.errors import MpsprobeError
from mpsprobe.protocols import Device, Steps
from mpsprobe.schemas import ProbeReading
from mpsprobe_devkit.testing import FakeDevice, FakeProbe, FakeWorkload
from mpsprobe_devkit.testing.contracts.probe import PROBE, ProbeSubject
from mpsprobe_devkit.testing.contracts.subjects import given


class Counting(FakeProbe):
    """A sound probe: it counts anew each time, and says so where there was nothing."""

    def start(self, device: Device, steps: Steps) -> None:
        super().start(device, steps)
        self.samples = 0

    def stop(self) -> Mapping[str, Any]:
        if not self.samples:
            raise MpsprobeError("no step came to its end")
        return super().stop()


def broken(probe: Any, *, strict: bool = True, device: Any = FakeDevice) -> dict[str, str]:
    """The clauses that it breaks, with what is said."""
    declaration = ProbeDeclaration("fake", "x:y", "under test")
    subject = ProbeSubject(declaration, given(probe), device, FakeWorkload(), strict)
    return {one.clause: one.problem for one in PROBE.broken(subject)}


def test_sound_ones_break_nothing() -> None:
    assert broken(Counting) == {}
    assert broken(FakeProbe) == {}
    assert broken(Counting(reason="no such counter here")) == {}


class NoProbe:
    name, disturbs = "fake", False

    def unavailable(self, device: Device) -> str | None:
        raise NotImplementedError


class RaisesWhenAsked(Counting):
    def unavailable(self, device: Device) -> str | None:
        device.describe()
        return None


class WordyRefusal(Counting):
    def unavailable(self, device: Device) -> str | None:
        return "no\nnot here" if device.name != "fake" else None


class AsksInAThread(Counting):
    def unavailable(self, device: Device) -> str | None:
        _start_thread()
        return None


class FillsTheSessionsField(Counting):
    def stop(self) -> Mapping[str, Any]:
        super().stop()
        return {"steps": []}


class FillsNoField(Counting):
    def stop(self) -> Mapping[str, Any]:
        super().stop()
        return {"temperature": 3}


class WrongType(Counting):
    def stop(self) -> Mapping[str, Any]:
        super().stop()
        return {"readings": [{"probe": "fake"}]}


class FindsNothing(Counting):
    def stop(self) -> Mapping[str, Any]:
        super().stop()
        return {}


class BreaksSteps(Counting):
    def start(self, device: Device, steps: Steps) -> None:
        super().start(device, steps)
        steps.step = None  # type: ignore[method-assign,assignment]


class OnlyOnce(Counting):
    used = False

    def start(self, device: Device, steps: Steps) -> None:
        super().start(device, steps)
        if self.used:
            raise RuntimeError("it is used up")
        self.used = True


class Piles(FakeProbe):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[ProbeReading] = []

    def stop(self) -> Mapping[str, Any]:
        self.found += [ProbeReading(probe="fake", values={"steps": 1.0})]
        return {"readings": list(self.found)}


class DividesBySamples(Counting):
    def stop(self) -> Mapping[str, Any]:
        return {"readings": [ProbeReading(probe="fake", values={"mean_ns": 1 / self.samples})]}


class StopsOnce(Counting):
    running: Any = None

    def start(self, device: Device, steps: Steps) -> None:
        super().start(device, steps)
        self.running = object()

    def stop(self) -> Mapping[str, Any]:
        if self.running is None:
            raise AttributeError("'NoneType' object has no attribute 'end'")
        self.running = None
        return FakeProbe.stop(self)


class LeavesItsThread(Counting):
    """Starts its thread before it looks at the steps, and remembers it after."""

    ended: threading.Event | None = None

    def start(self, device: Device, steps: Steps) -> None:
        ended = _start_thread(2.5)
        assert steps.info
        self.ended = ended
        super().start(device, steps)

    def stop(self) -> Mapping[str, Any]:
        if self.ended is not None:
            self.ended.set()
        return super().stop()


class NeverEnds(Counting):
    def start(self, device: Device, steps: Steps) -> None:
        super().start(device, steps)
        _start_thread()


class StopsCollecting(Counting):
    def start(self, device: Device, steps: Steps) -> None:
        super().start(device, steps)
        gc.set_threshold(700 + gc.get_threshold()[0])


def _start_thread(seconds: float = 2.5) -> threading.Event:
    ended = threading.Event()
    threading.Thread(target=ended.wait, args=(seconds,), name="sampling", daemon=True).start()
    return ended


CASES: list[tuple[Any, str, str]] = [
    (NoProbe, "is_what_it_declares", "has no start, sample, stop"),
    (Counting(name="other"), "is_what_it_declares", "its name is 'other'"),
    (Counting(disturbs="a little"), "is_what_it_declares", "disturbs is 'a little'"),  # type: ignore[arg-type]
    (RaisesWhenAsked, "says_where_it_cannot_measure", "raised MpsprobeError"),
    (WordyRefusal, "says_where_it_cannot_measure", "neither None nor a sentence"),
    (AsksInAThread, "says_where_it_cannot_measure", "'sampling'"),
    (FillsTheSessionsField, "fills_fields_of_the_report", "'steps', which a probe must not fill"),
    (FillsNoField, "fills_fields_of_the_report", "'temperature'"),
    (WrongType, "fills_fields_of_the_report", "its readings cannot be"),
    (FindsNothing, "fills_fields_of_the_report", "found nothing at all"),
    (BreaksSteps, "fills_fields_of_the_report", "a step raised TypeError"),
    (Counting(fails_in="sample"), "fills_fields_of_the_report", "no sample today"),
    (OnlyOnce, "can_be_used_again", "it is used up"),
    (Piles, "can_be_used_again", "has what it found at first, too"),
    (DividesBySamples, "survives_no_step_at_all", "ZeroDivisionError"),
    (StopsOnce, "can_be_stopped_twice", "AttributeError"),
    (LeavesItsThread, "cleans_up_after_a_failed_start", "leaves a thread running: 'sampling'"),
    (NeverEnds, "leaves_the_process_alone", "leaves a thread running"),
    (StopsCollecting, "leaves_the_process_alone", "garbage collection"),
]
ALSO = {
    "OnlyOnce": {"cleans_up_after_a_failed_start", "leaves_the_process_alone"},
    "Piles": set(),
    "DividesBySamples": set(),
    "NeverEnds": {"can_be_stopped_twice", "cleans_up_after_a_failed_start"},
}


@pytest.mark.parametrize(("probe", "clause", "says"), CASES, ids=lambda one: getattr(one, "__name__", None))
def test_each_clause_can_be_broken(probe: Any, clause: str, says: str) -> None:
    found = broken(probe)
    assert says in found[clause], found
    assert set(found) - ALSO.get(getattr(probe, "__name__", ""), set()) == {clause}, found


def test_on_a_fake_device_a_probe_may_say_that_there_was_nothing() -> None:
    class Nothing(Counting):
        def stop(self) -> Mapping[str, Any]:
            raise MpsprobeError("the steps call no operator")

    assert broken(Nothing, strict=False) == {}
    assert "no operator" in broken(Nothing)["fills_fields_of_the_report"]


@pytest.fixture(autouse=True)
def thresholds() -> Any:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)
