"""A session with a clock that the test moves, and when its steps have settled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from mpsprobe.engine import session as engine
from mpsprobe.engine.profiling import timed
from mpsprobe.engine.request import ProfileRequest
from mpsprobe.engine.session import Measured, Session
from mpsprobe.engine.statistics import duration_statistics
from mpsprobe.errors import MpsprobeError
from mpsprobe.protocols import Probe
from mpsprobe_devkit.testing.fakes import FakeClock, FakeDevice, FakeProbe, FakeProgress, FakeSteps

MS = 1_000_000


def _measure(
    *durations: int | BaseException, probes: Sequence[Probe] = (), device: FakeDevice | None = None, **asked: Any
) -> tuple[Measured, FakeSteps]:
    device = device or FakeDevice()
    steps = FakeSteps(device.clock, durations, {"forward": 0.25, "backward": 0.75})
    request = ProfileRequest(**{"steps": 10, **asked})
    return Session(device, probes, device.clock).measure(steps, request, FakeProgress()), steps


def test_the_first_call_stands_apart_and_warm_up_goes_on_until_stable() -> None:
    measured, _ = _measure(900 * MS, 30 * MS, 20 * MS, 10 * MS)
    assert measured.first_call_ns == 900 * MS
    assert measured.warmup_ns == [30 * MS, 20 * MS, *[10 * MS] * 5] and measured.stable
    assert measured.durations_ns == [10 * MS] * 10
    assert measured.error is None and not measured.interrupted and measured.notes == []


def test_a_warm_up_of_n_steps_has_n_steps() -> None:
    measured, steps = _measure(9 * MS, 5 * MS, 1 * MS, steps=3, warmup=2)
    assert measured.warmup_ns == [5 * MS, 1 * MS] and not measured.stable
    assert measured.durations_ns == [1 * MS] * 3
    assert steps.taken == 1 + 2 + 3 + engine.PHASE_STEPS


def test_a_warm_up_that_never_settles_ends() -> None:
    wild = [n * MS for _ in range(40) for n in (10, 30, 50, 80, 120)]
    growing = [duration * (1 + index // 5) for index, duration in enumerate(wild)]
    measured, _ = _measure(*growing, steps=1)
    assert not measured.stable and len(measured.durations_ns) == 1


def test_phases_come_from_steps_of_their_own() -> None:
    measured, _ = _measure(4 * MS, steps=2, warmup=0)
    assert measured.phases_ns == {"forward": [1 * MS] * engine.PHASE_STEPS, "backward": [3 * MS] * engine.PHASE_STEPS}
    assert measured.durations_ns == [4 * MS] * 2


@pytest.mark.parametrize("error", [KeyboardInterrupt(), MemoryError("too large")])
def test_a_step_that_raises_keeps_what_was_measured(error: BaseException) -> None:
    measured, _ = _measure(*[4 * MS] * 5, error, steps=10, warmup=1)
    assert measured.interrupted is isinstance(error, KeyboardInterrupt) and measured.phase == "steps"
    assert measured.error is (None if measured.interrupted else error)
    assert measured.durations_ns == [4 * MS] * 3 and measured.first_call_ns == 4 * MS


def test_a_clock_that_goes_back_costs_its_step_only() -> None:
    measured, _ = _measure(*[4 * MS] * 3, -2 * MS, 4 * MS, steps=4, warmup=1)
    assert measured.durations_ns == [4 * MS] * 3
    assert measured.notes == [engine.CLOCK_WENT_BACK.format(count=1)]


def test_probes_see_the_timed_steps_and_those_that_disturb_get_their_own() -> None:
    calm, heavy = FakeProbe("calm"), FakeProbe("heavy", disturbs=True)
    measured, _ = _measure(4 * MS, steps=6, warmup=0, probes=(calm, heavy))
    readings = {reading.probe: reading.values for reading in measured.found["readings"]}
    assert readings == {"calm": {"steps": 6.0}, "heavy": {"steps": float(engine.DISTURBED_STEPS)}}


def test_throughput_counts_samples_and_tokens() -> None:
    info = FakeSteps(FakeClock()).info.model_copy(update={"grad_accum": 2})
    step = duration_statistics([20 * MS] * 8)
    amounts = {one.unit: one.per_second for one in engine.throughput(info, step)}
    assert amounts == pytest.approx({"samples": 4 * 2 / 0.02, "tokens": 4 * 8 * 2 / 0.02})
    assert engine.throughput(info.model_copy(update={"batch_size": None}), step) == []
    assert engine.throughput(info, duration_statistics([0] * 8)) == []
    assert duration_statistics([]) is None


def test_outliers_are_marked_and_kept() -> None:
    samples = timed([[], [], [10 * MS] * 9 + [30 * MS]], {}, None)["steps"]
    assert [sample.outlier for sample in samples] == [False] * 9 + [True]
    assert {sample.process for sample in samples} == {2}


class _Clocked(FakeDevice):
    """A device with a clock of its own, which gives ``says``, whatever the host's says; the last one goes on."""

    says = [2.0 * MS]
    started = 0
    why_not: str | None = None

    def clock_unavailable(self) -> str | None:
        return self.why_not

    def stopwatch(self) -> _Clocked:
        assert self.why_not is None
        return self

    def start(self) -> None:
        self.started += 1

    def stop(self) -> float:
        return self.says[min(self.started, len(self.says)) - 1]


def _by_the_device(device: FakeDevice) -> Measured:
    return _measure(9 * MS, device=device, steps=3, warmup=1, clock="device")[0]


def test_steps_by_the_clock_of_the_device() -> None:
    device = _Clocked()
    device.says = [2.4 * MS]
    measured = _by_the_device(device)
    assert measured.first_call_ns == 9 * MS  # by the host's
    assert measured.warmup_ns == [2_400_000] and measured.durations_ns == [2_400_000] * 3
    assert device.started == 4 and measured.notes == [engine.DEVICE_CLOCK]


@pytest.mark.parametrize("wrong", [-1.0, float("nan"), float("inf")])
def test_what_such_a_clock_says_is_not_believed_blindly(wrong: float) -> None:
    device = _Clocked()
    device.says = [1.0 * MS, 1.0 * MS, wrong, 1.0 * MS]
    measured = _by_the_device(device)
    assert measured.durations_ns == [MS] * 2 and measured.error is None
    assert engine.CLOCK_WENT_BACK.format(count=1) in measured.notes


def test_a_device_without_such_a_clock_is_timed_by_the_hosts() -> None:
    untrusted = _Clocked()
    untrusted.why_not = "its events hang"
    for device, reason in ((FakeDevice(), "fake has no clock of its own"), (untrusted, "its events hang")):
        measured = _by_the_device(device)
        assert measured.durations_ns == [9 * MS] * 3
        assert measured.notes == [engine.HOST_CLOCK.format(reason=reason)]
        assert engine.why_no_clock(device) == reason


class _Giving(FakeProbe):
    gives: Any = None
    stopped = 0

    def stop(self) -> Any:
        self.stopped += 1
        self._attempt("stop")
        return self.gives


def test_a_probe_that_gives_nonsense_costs_nothing_else() -> None:
    for gives, says in (
        ({"steps": []}, "'steps', which a probe must not fill"),
        ({"notes": ["a"]}, "'notes', which a probe must not fill"),
        ({"no_such_field": 1}, "'no_such_field', which a probe must not fill"),
        ({"memory": 5}, "its memory cannot be"),
        ({"readings": [{"probe": "giving", "values": {"gpu_mj": float("nan")}}]}, "its readings cannot be: 0.values"),
        (None, "it failed: AttributeError"),
        (["readings"], "it failed: AttributeError"),
    ):
        bad, good = _Giving("giving"), FakeProbe("good")
        bad.gives = gives
        measured, _ = _measure(4 * MS, steps=3, warmup=0, probes=(bad, good))
        found = measured.unavailable
        assert [(one.probe, says in one.reason) for one in found] == [("giving", True)], found
        assert set(measured.found) == {"readings"} and len(measured.found["readings"]) == 1 and measured.error is None


@pytest.mark.parametrize("method", ["start", "sample", "stop"])
def test_a_probe_that_fails_is_stopped_once_and_costs_nothing_else(method: str) -> None:
    good, bad = FakeProbe("good"), _Giving("bad", fails_in=method)
    measured, _ = _measure(4 * MS, steps=3, warmup=0, probes=(bad, good))
    assert [(one.probe, f"no {method} today" in one.reason) for one in measured.unavailable] == [("bad", True)]
    assert bad.stopped == 1 and [reading.probe for reading in measured.found["readings"]] == ["good"]
    assert measured.durations_ns == [4 * MS] * 3 and measured.error is None


def test_a_probe_may_give_its_reason_itself() -> None:
    class Refusing(FakeProbe):
        def sample(self) -> None:
            raise MpsprobeError("the sensor went to sleep", "Wake it.")

    probes = (FakeProbe("absent", reason="no sensor"), Refusing("asleep"))
    measured, _ = _measure(4 * MS, steps=2, warmup=0, probes=probes)
    found = [(one.probe, one.reason) for one in measured.unavailable]
    assert found == [("absent", "no sensor"), ("asleep", "the sensor went to sleep")] and measured.found == {}


def test_is_stable() -> None:
    for durations, stable in (
        ([], False),
        ([100.0] * 4, False),  # too few to tell
        ([100.0] * 5, True),
        ([900.0, 400.0, 200.0, 120.0, 110.0], False),
        ([900.0, 400.0, 102.0, 100.0, 101.0, 100.5, 100.2], True),
        ([100.0, 110.0, 90.0, 105.0, 95.0] * 2, True),  # noisy, but the noise has no direction
        ([100.0, 98.0, 96.0, 94.0, 92.0, 90.0, 88.0, 86.0, 84.0, 82.0], False),  # still getting faster
    ):
        assert engine.is_stable(durations) is stable


def test_a_warm_up_ends_by_count_and_by_time() -> None:
    falling = [1000.0 / (n + 1) for n in range(engine.MOST_STEPS)]
    assert not engine.is_enough(falling[:-1]) and engine.is_enough(falling)
    assert engine.is_enough([61e9])
