"""The device ``mps``, its clock, and the sources that only macOS has."""

from __future__ import annotations

import statistics

import psutil
import pytest
import torch

from mpsprobe.engine.request import ProfileRequest
from mpsprobe.engine.session import Session
from mpsprobe.errors import UsageError
from mpsprobe.plugins.registry import get_registry
from mpsprobe.protocols import RunOptions, TorchRun
from mpsprobe_devkit.testing.fakes import FakeProgress

pytestmark = pytest.mark.mac


class _Products:
    """Enough work for the GPU that the host does not matter."""

    name, framework = "products", "torch"

    def build(self, options: RunOptions) -> TorchRun:
        del options

        class Model(torch.nn.Module):
            def forward(self, matrix: torch.Tensor) -> torch.Tensor:
                for _ in range(20):
                    matrix = (matrix @ matrix).clamp(-1, 1)
                return matrix

        return TorchRun(Model(), (torch.rand(2048, 2048),))

    def describe(self) -> dict[str, str]:
        return {}


def test_the_device_and_the_processor_say_what_they_are() -> None:
    device = get_registry().device("mps")
    assert device.unavailable() is None
    described = device.describe()
    total = psutil.virtual_memory().total
    assert described.name.startswith("Apple") and described.memory_bytes and described.memory_bytes <= total
    assert described.capabilities["macos"] and described.capabilities["float64"] == "no"
    assert get_registry().device("cpu").describe().name.startswith("Apple M")


def test_memory_follows_a_tensor() -> None:
    device = get_registry().device("mps")
    device.synchronize()
    before = device.memory()
    kept = device.reset_peak()
    held = torch.ones(64 * 2**20, dtype=torch.uint8, device="mps")
    device.synchronize()
    during = device.memory()
    assert during.allocated - before.allocated >= 64 * 2**20 and during.reserved >= during.allocated
    del held
    device.synchronize()
    if kept:
        assert device.peak().allocated >= during.allocated


def test_intervals_by_events_are_never_negative_and_steps_agree_with_the_hosts_clock() -> None:
    device = get_registry().device("mps")
    if (reason := device.clock_unavailable()) is not None:  # a release before the repair of its events
        assert "pytorch#196395" in reason and (torch.__version__ < "2.15" or torch.__version__.startswith("2.1"))
        with pytest.raises(UsageError):
            device.stopwatch()
        return
    watch, one = device.stopwatch(), torch.ones(8, device="mps")
    for _ in range(200):
        watch.start()
        one = one * 1.0
        assert watch.stop() >= 0
    found = {}
    for clock in ("host", "device"):
        steps = device.open(_Products(), RunOptions())
        request = ProfileRequest(steps=20, warmup=10, clock=clock)
        measured = Session(device, []).measure(steps, request, FakeProgress())
        steps.close()
        assert measured.error is None and len(measured.durations_ns) == 20, measured.notes
        found[clock] = statistics.median(measured.durations_ns)
    assert 0.5 * found["host"] < found["device"] < 1.05 * found["host"]


def test_the_footprint_grows_with_what_is_held() -> None:
    from mpsprobe_devices.footprint import footprint_reader

    read = footprint_reader()
    before = read()
    held = bytearray(b"x") * (128 * 2**20)
    assert read() - before > 100 * 2**20
    del held


def test_macos_tells_its_thermal_state() -> None:
    from mpsprobe_devices.probes.thermal import THERMAL_STATES, macos

    values = macos(get_registry().device("mps"))
    assert values["thermal_state"] in THERMAL_STATES and values["low_power_mode"] in ("on", "off")
