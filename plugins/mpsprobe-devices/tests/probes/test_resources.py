"""Memory over steps: allocators that keep peaks, that do not, and that stop answering; processor time of steps."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import Mock

import pytest

from mpsprobe.errors import MpsprobeError
from mpsprobe.protocols import Probe
from mpsprobe.schemas import MemoryUse
from mpsprobe_devices.cpu import CpuDevice
from mpsprobe_devices.machine import Memory
from mpsprobe_devices.probes import memory as module
from mpsprobe_devices.probes.host import HostProbe
from mpsprobe_devices.probes.memory import CountsMemory, MemoryProbe
from mpsprobe_devkit.testing.fakes import FakeClock, FakeDevice, FakeSteps


@dataclass
class _Allocator(FakeDevice):
    """Counts as its answers say; an exception among the answers is raised."""

    answers: list[Any] = field(default_factory=list)
    keeps_peaks: bool = False
    highest: Any = None
    resets: int = 0

    def _given(self, answer: Any) -> Memory:
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, Memory) else Memory(answer, answer)

    def memory(self) -> Memory:
        return self._given(self.answers.pop(0) if len(self.answers) > 1 else self.answers[0])

    def reset_peak(self) -> bool:
        self.resets += 1
        return self.keeps_peaks

    def peak(self) -> Memory:
        return self._given(self.highest)


def _use(device: FakeDevice, *, samples: int = 2, process: Callable[[], int] = lambda: 100) -> MemoryUse:
    clock = FakeClock()
    probe = MemoryProbe(process, clock, threaded=False)
    assert isinstance(probe, Probe) and probe.unavailable(device) is None and not probe.disturbs
    probe.start(device, FakeSteps(clock))
    for _ in range(samples):
        clock.now += 10
        probe.sample()
    clock.now += 1
    use = probe.stop()["memory"]
    assert isinstance(use, MemoryUse)
    columns = [use.curve.allocated_bytes, use.curve.reserved_bytes, use.curve.process_bytes]
    assert all(len(column) in (0, len(use.curve.times_ns)) for column in columns)
    return use


def test_an_allocator_that_keeps_peaks_is_believed() -> None:
    device = _Allocator(answers=[5, 7, 6, 4], keeps_peaks=True, highest=90)
    use = _use(device)
    assert (use.source, use.peak_allocated_bytes, use.peak_reserved_bytes) == ("allocator", 90, 90)
    assert (use.allocated_bytes, use.reserved_bytes, use.peak_process_bytes) == (4, 4, 100)
    assert use.curve.times_ns == [0, 10, 20, 21] and use.curve.allocated_bytes == [5, 7, 6, 4]
    assert device.resets == 1 and use.caveats == []
    use = _use(_Allocator(answers=[5, 7, 6, 4]))  # without its peaks the largest sample stands, and is called so
    assert (use.source, use.peak_allocated_bytes) == ("sampled", 7)


def test_a_device_that_does_not_count_has_the_process_alone() -> None:
    assert not isinstance(CpuDevice(), CountsMemory) and not isinstance(FakeDevice(), CountsMemory)
    for device in (CpuDevice(), FakeDevice()):
        use = _use(device, process=Mock(side_effect=[100, 300, 200, 250]))
        assert use.source == "sampled" and use.allocated_bytes is None and use.peak_allocated_bytes is None
        assert use.peak_process_bytes == 300 and use.curve.process_bytes == [100, 300, 200, 250]
        assert use.curve.allocated_bytes == [] and use.caveats == []


def test_an_allocator_that_stops_answering_costs_its_curve_and_is_named() -> None:
    for wrong, says in (
        (-5, "allocated was -5 after 1 samples"),
        (float("nan"), "allocated was nan after 1"),
        (Memory(None, 9), "allocated stopped after 1"),
        (RuntimeError("device lost\nand more"), "allocated raised RuntimeError: device lost after 1"),
    ):
        use = _use(_Allocator(answers=[5, wrong, 6]))
        assert use.curve.allocated_bytes == [] and len(use.curve.process_bytes) == 4
        assert use.peak_allocated_bytes == 5 and any(says in caveat for caveat in use.caveats)


@pytest.mark.parametrize("wrong", [-1, None, float("nan"), RuntimeError("gone")])
def test_a_peak_that_cannot_be_is_replaced_by_samples(wrong: Any) -> None:
    use = _use(_Allocator(answers=[5, 7], keeps_peaks=True, highest=wrong))
    assert (use.source, use.peak_allocated_bytes) == ("sampled", 7)
    assert "asked for its peak" in use.caveats[0]


def test_a_system_that_does_not_tell_of_the_process_is_named() -> None:
    use = _use(_Allocator(answers=[5]), process=Mock(side_effect=PermissionError("not yours")))
    assert use.peak_process_bytes is None and use.curve.process_bytes == [] and use.curve.allocated_bytes == [5] * 4
    assert "process raised PermissionError: not yours" in use.caveats[0]


def test_a_clock_that_goes_back_leaves_no_point() -> None:
    clock = FakeClock(now=50)
    probe = MemoryProbe(lambda: 1, clock, threaded=False)
    probe.start(FakeDevice(), FakeSteps(clock))
    for moment in (60, 40, 70):
        clock.now = moment
        probe.sample()
    assert probe.stop()["memory"].curve.times_ns == [0, 10, 20, 20]


def test_a_long_curve_is_thinned() -> None:
    use = _use(_Allocator(answers=[*range(10_000)]), samples=10_000 - 2)
    assert len(use.curve.times_ns) < module.MOST_POINTS and use.curve.times_ns[0] == 0
    assert use.peak_allocated_bytes == 9_999


def test_the_thread_sees_what_happens_within_a_step_and_ends() -> None:
    held = [1]
    probe = MemoryProbe(lambda: held[0])
    probe.start(FakeDevice(), FakeSteps(FakeClock()))
    assert "mpsprobe-memory" in [one.name for one in threading.enumerate()]
    held[0] = 1000
    deadline = time.monotonic() + 30
    while 1000 not in probe._columns[module.PROCESS] and time.monotonic() < deadline:
        time.sleep(0.005)
    held[0] = 2
    use = probe.stop()["memory"]
    assert use.peak_process_bytes == 1000 and use.curve.process_bytes[-1] == 2
    assert "mpsprobe-memory" not in [one.name for one in threading.enumerate()]
    probe.start(FakeDevice(), FakeSteps(FakeClock()))  # a probe serves one configuration after the other
    assert probe.stop()["memory"].peak_process_bytes == 2


def test_sampling_stays_cheap_when_a_sample_is_dear() -> None:
    taken = []

    def dear() -> int:
        taken.append(time.thread_time_ns())
        while time.thread_time_ns() < taken[-1] + 3_000_000:
            pass
        return 1

    probe = MemoryProbe(dear)
    probe.start(FakeDevice(), FakeSteps(FakeClock()))
    time.sleep(0.5)
    probe.stop()
    assert len(taken) <= 4  # at the start, at the end, and one by the thread, which then waits for three seconds


MS = 1_000_000


def _probe() -> tuple[HostProbe, FakeClock, FakeClock]:
    wall, processor = FakeClock(), FakeClock()
    probe = HostProbe(wall, processor)
    assert isinstance(probe, Probe) and probe.unavailable(FakeDevice()) is None and not probe.disturbs
    probe.start(FakeDevice(), FakeSteps(wall))
    return probe, wall, processor


def test_time_per_step_and_cores() -> None:
    probe, wall, processor = _probe()
    for busy in (10, 20, 30):
        wall.now += 10 * MS
        processor.now += busy * MS
        probe.sample()
    (reading,) = probe.stop()["readings"]
    assert reading.values == {"cpu_ns_per_step": 20 * MS, "cores_busy": 2.0, "steps": 3.0} and reading.caveats == []


@pytest.mark.parametrize(("wall_step", "processor_step"), [(-5 * MS, MS), (0, MS), (MS, -MS)])
def test_a_clock_that_goes_back_costs_its_step(wall_step: int, processor_step: int) -> None:
    probe, wall, processor = _probe()
    wall.now, processor.now = 10 * MS, 5 * MS
    probe.sample()
    wall.now += wall_step
    processor.now += processor_step
    probe.sample()
    (reading,) = probe.stop()["readings"]
    assert reading.values == {"cpu_ns_per_step": 5 * MS, "cores_busy": 0.5, "steps": 1.0}
    assert "went back during 1 of the steps" in reading.caveats[0]


def test_of_cuda_it_says_that_waiting_is_busy() -> None:
    probe, wall, _ = _probe()
    with pytest.raises(MpsprobeError, match="no step came to its end"):
        probe.stop()
    probe.start(FakeDevice("cuda"), FakeSteps(wall))
    wall.now += MS
    probe.sample()
    assert "spins" in probe.stop()["readings"][0].caveats[0]


def test_for_real_a_busy_step_is_busy_and_a_sleeping_one_is_not() -> None:
    def spent(wait: Callable[[], object]) -> float:
        probe = HostProbe()
        probe.start(CpuDevice(), FakeSteps(FakeClock()))
        for _ in range(3):
            wait()
            probe.sample()
        return float(probe.stop()["readings"][0].values["cpu_ns_per_step"])

    def busy() -> None:
        end = time.process_time_ns() + 30 * MS
        while time.process_time_ns() < end:
            pass

    assert 30 * MS <= spent(busy) < 90 * MS and spent(lambda: time.sleep(0.03)) < 15 * MS
