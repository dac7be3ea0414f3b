"""Processor time of steps, with clocks that the test moves, and for real."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from mpsprobe.errors import MpsprobeError
from mpsprobe.protocols import Probe
from mpsprobe_devices.cpu import CpuDevice
from mpsprobe_devices.probes.host import HostProbe
from mpsprobe_devkit.testing.fakes import FakeClock, FakeDevice, FakeSteps

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
