"""Heat and power before and after, each source against doubles; energy, against a double like zeus 0.16.0."""

from __future__ import annotations

import importlib
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field, make_dataclass
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import psutil
import pytest

from mpsprobe.errors import MpsprobeError
from mpsprobe.protocols import Probe
from mpsprobe.schemas import ProbeReading
from mpsprobe_devices.probes import thermal
from mpsprobe_devices.probes.energy import NOT_INSTALLED, SHORTEST_NS, EnergyProbe, make_monitor
from mpsprobe_devices.probes.thermal import NOTHING, ThermalProbe
from mpsprobe_devkit.testing.fakes import FakeClock, FakeDevice, FakeSteps

Values = Mapping[str, float | str]
TOO_HOT = {"hottest_celsius": 101.0, "hottest_limit_celsius": 100.0, "hottest_sensor": "k10temp Tctl"}


def _reading(before: Values | Exception, after: Values | Exception) -> ProbeReading:
    source = Mock(side_effect=[before, after], __name__="source")
    probe = ThermalProbe([source, lambda device: {"cpu_mhz": 1.0}])
    assert isinstance(probe, Probe) and not probe.disturbs
    device = FakeDevice()
    assert probe.unavailable(device) is None
    probe.start(device, FakeSteps(FakeClock()))
    probe.sample()
    (reading,) = probe.stop()["readings"]
    assert isinstance(reading, ProbeReading)
    return reading


def test_values_before_and_after() -> None:
    reading = _reading({"gpu_celsius": 40.0, "power_source": "mains"}, {"gpu_celsius": 61.0, "power_source": "mains"})
    before = {"gpu_celsius_before": 40.0, "power_source_before": "mains", "cpu_mhz_before": 1.0}
    after = {"gpu_celsius_after": 61.0, "power_source_after": "mains", "cpu_mhz_after": 1.0}
    assert reading.values == before | after
    assert reading.caveats == []


def test_what_makes_a_reading_doubtful_is_said() -> None:
    for before, after, says in (
        ({"thermal_state": "nominal"}, {"thermal_state": "serious"}, "thermal state was serious"),
        ({"thermal_state": "fair"}, {"thermal_state": "nominal"}, "thermal state was fair"),
        ({"low_power_mode": "off"}, {"low_power_mode": "on"}, "low-power mode was on"),
        ({"power_source": "battery"}, {"power_source": "mains"}, "ran on battery"),
        ({"gpu_heat_throttled_ns": 1e6}, {"gpu_heat_throttled_ns": 8e6}, "lowered (gpu heat) for 7 ms"),
        ({}, TOO_HOT, "k10temp Tctl was at 101 °C, its limit is 100 °C"),
        ({"gpu_mw": 5.0}, {}, "not available after the steps: gpu_mw"),
        ({"gpu_mw": 5.0}, OSError("driver gone"), "source: driver gone"),
        (OSError("driver not there yet"), {}, "source: driver not there yet"),
    ):
        assert any(says in caveat for caveat in _reading(before, after).caveats)


@pytest.mark.parametrize(("before", "after"), [(5.0, 5.0), (5.0, 2.0)])
def test_a_counter_that_stands_or_goes_back_accuses_nobody(before: float, after: float) -> None:
    reading = _reading({"gpu_heat_throttled_ns": before}, {"gpu_heat_throttled_ns": after})
    assert reading.caveats == [] and reading.values.get("gpu_heat_throttled_ns", 0.0) == 0.0


def test_what_is_no_number_is_not_told() -> None:
    reading = _reading({"gpu_celsius": float("nan"), "gpu_mw": 5.0}, {"gpu_celsius": 50.0, "gpu_mw": float("inf")})
    assert set(reading.values) == {"gpu_mw_before", "gpu_celsius_after", "cpu_mhz_before", "cpu_mhz_after"}


def test_with_nothing_to_read_it_is_unavailable_and_says_why() -> None:
    refuse = Mock(side_effect=OSError("no driver\nmore"), __name__="refuse")
    assert ThermalProbe([lambda device: {}]).unavailable(FakeDevice()) == NOTHING
    assert ThermalProbe([refuse]).unavailable(FakeDevice()) == f"{NOTHING}; refuse: no driver"


def test_what_macos_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    for printed, found in (
        ("[0,false]", {"thermal_state": "nominal", "low_power_mode": "off"}),
        ("[3,true]", {"thermal_state": "critical", "low_power_mode": "on"}),
        ("[2,1]", {"thermal_state": "serious", "low_power_mode": "on"}),
        ("[1,null]", {"thermal_state": "fair"}),  # before macOS 12
        ("[7,0]", {"low_power_mode": "off"}),
        ('["0",null]', {}),
        ("[true,2]", {}),
        ("[0]", {}),
        ("7", {}),
        ("{}", {}),
        ("execution error: Error: -1700", {}),
        ("", {}),
        (None, {}),
    ):
        ask = Mock(return_value=printed)
        monkeypatch.setattr(thermal, "ask", ask)
        monkeypatch.setattr(platform, "system", lambda: "Darwin")
        assert thermal.macos(FakeDevice()) == found and ask.call_args.args[0][:3] == ["osascript", "-l", "JavaScript"]
        monkeypatch.setattr(platform, "system", lambda: "Linux")
        assert thermal.macos(FakeDevice()) == {} and ask.call_count == 1


def test_batteries(monkeypatch: pytest.MonkeyPatch) -> None:
    for battery, found in (
        (SimpleNamespace(percent=80, power_plugged=True), {"power_source": "mains", "battery_percent": 80.0}),
        (SimpleNamespace(percent=80, power_plugged=False), {"power_source": "battery", "battery_percent": 80.0}),
        (SimpleNamespace(percent=80, power_plugged=None), {"battery_percent": 80.0}),
        (None, {}),
    ):
        monkeypatch.setattr(psutil, "sensors_battery", lambda answer=battery: answer, raising=False)
        assert thermal.battery(FakeDevice()) == found


def test_temperatures(monkeypatch: pytest.MonkeyPatch) -> None:
    hot = [SimpleNamespace(label=f"Core {core}", current=70.0 + core, high=90.0) for core in (0, 5)]
    sensors = {"coretemp": hot, "nvme": [SimpleNamespace(label="", current=float("nan"), high=None)]}
    monkeypatch.setattr(psutil, "sensors_temperatures", lambda: sensors, raising=False)
    assert thermal.temperatures(FakeDevice()) == {
        "hottest_celsius": 75.0,
        "hottest_sensor": "coretemp Core 5",
        "hottest_limit_celsius": 90.0,
    }
    sensors.clear()
    assert thermal.temperatures(FakeDevice()) == {}


def test_the_clock_of_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(current=2400.0)
    for system, answer, found in (("Linux", clock, {"cpu_mhz": 2400.0}), ("Linux", None, {}), ("Darwin", clock, {})):
        monkeypatch.setattr(psutil, "cpu_freq", lambda answer=answer: answer, raising=False)
        monkeypatch.setattr(platform, "system", lambda system=system: system)
        assert thermal.processor_clock(FakeDevice()) == found


def test_a_psutil_without_these_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thermal, "psutil", SimpleNamespace())
    for source in (thermal.battery, thermal.temperatures, thermal.processor_clock):
        assert source(FakeDevice()) == {}


def test_what_a_device_tells_of_itself() -> None:
    assert thermal.of_the_device(FakeDevice()) == {}
    assert thermal.of_the_device(Mock(state=lambda: {"gpu_celsius": 44.0})) == {"gpu_celsius": 44.0}


CORES = ("efficiency_cores", "performance_cores", "efficiency_cluster", "performance_cluster")  # each a list
PARTS = ("cpu_total", *CORES, "efficiency_core_manager", "performance_core_manager", "dram", "gpu", "gpu_sram", "ane")
# The fields of ``zeus.device.soc.apple.AppleSiliconMeasurement``, in mJ.
_AppleSiliconMeasurement = make_dataclass("_AppleSiliconMeasurement", [(f"{part}_mj", Any, None) for part in PARTS])


@dataclass
class _Measurement:
    """``zeus.monitor.energy.Measurement``: J by index, and the chip's own."""

    time: float
    gpu_energy: dict[int, float] = field(default_factory=dict)
    cpu_energy: dict[int, float] | None = None
    dram_energy: dict[int, float] | None = None
    soc_energy: Any = None


class _ZeusMonitor:
    """``zeus.monitor.ZeusMonitor`` with the same arguments, as far as they are used."""

    def __init__(self, gpu_indices: list[int] | None = None, cpu_indices: list[int] | None = None) -> None:
        self.gpu_indices = [0] if gpu_indices is None else gpu_indices
        self.cpu_indices = [] if cpu_indices is None else cpu_indices
        self.soc_is_present = False
        self.windows: set[str] = set()
        self.gives: Any = _Measurement(2.0, {}, {0: 5.0})

    def begin_window(self, key: str, sync_execution: bool = True, restart: bool = False) -> None:
        assert sync_execution is False, "the session has synchronised already"
        if key in self.windows and not restart:
            raise ValueError(f"Measurement window '{key}' already exists")
        self.windows.add(key)

    def end_window(self, key: str, sync_execution: bool = True, cancel: bool = False) -> _Measurement:
        assert sync_execution is False and cancel is False
        self.windows.remove(key)
        if isinstance(self.gives, Exception):
            raise self.gives
        return self.gives  # type: ignore[no-any-return]


@dataclass
class _Gpu(FakeDevice):
    name: str = "cuda"

    def index(self) -> int:
        return 0


def _measured(
    gives: Any, device: FakeDevice | None = None, steps: int = 10, soc: bool = False, make: Any = None
) -> ProbeReading:
    monitor = _ZeusMonitor()
    monitor.soc_is_present, monitor.gives = soc, gives
    probe, device = EnergyProbe(make or (lambda gpus: monitor)), device or _Gpu()
    assert isinstance(probe, Probe) and probe.disturbs and probe.shortest_ns == SHORTEST_NS >= 10**9
    assert probe.unavailable(device) is None
    for _ in range(2):  # one that an error left open is no obstacle
        probe.start(device, FakeSteps(FakeClock()))
    for _ in range(steps):
        probe.sample()
    (reading,) = probe.stop()["readings"]
    assert isinstance(reading, ProbeReading)
    return reading


def test_an_nvidia_gpu() -> None:
    values = _measured(_Measurement(2.0, {0: 300.0}, {0: 60.0, 1: 40.0}, {0: 10.0})).values
    assert values["gpu_mj"] == 300_000 and values["gpu_mj_per_step"] == 30_000
    assert values["gpu_mj_per_sample"] == 7_500  # four samples in a step
    assert values["gpu_mw"] == 150_000 and values["cpu_mw"] == 50_000 and values["dram_mj"] == 10_000
    assert values["total_mj"] == 410_000 and values["window_ns"] == 2e9 and values["steps"] == 10


def test_an_apple_chip() -> None:
    chip = _AppleSiliconMeasurement(
        cpu_total_mj=4000, efficiency_cluster_mj=[300], performance_cluster_mj=[3000, 500], gpu_mj=20_000, dram_mj=2000
    )
    reading = _measured(_Measurement(4.0, soc_energy=chip), FakeDevice("mps"), soc=True)
    values = reading.values
    assert values["gpu_mj_per_step"] == 2000 and values["gpu_mw"] == 5000 and values["cpu_mj"] == 4000
    assert values["performance_cluster_mj"] == 3500 and values["total_mj"] == 26_000
    assert "total: cpu + gpu + dram" in reading.caveats
    (missing,) = [one for one in reading.caveats if one.startswith("not measured")]
    assert "ane" in missing and "gpu_sram" in missing and not any(name.startswith("ane") for name in values)


def test_what_was_not_measured_is_told_and_never_zero() -> None:
    reading = _measured(_Measurement(2.0, {0: 300.0}, {0: 0.0}))
    assert not any(name.startswith(("cpu", "dram")) for name in reading.values)
    assert "not measured, because there is no counter: dram" in reading.caveats
    assert any("did not move" in one and "cpu" in one for one in reading.caveats)


@pytest.mark.parametrize("wrong", [-3.0, float("nan"), float("inf")])
def test_a_counter_that_goes_back_is_left_out(wrong: float) -> None:
    reading = _measured(_Measurement(2.0, {0: 300.0}, {0: wrong}))
    assert "cpu_mj" not in reading.values and any("cpu is left out" in one for one in reading.caveats)
    assert reading.values["total_mj"] == 300_000


def test_nothing_measured_is_a_reason_and_no_reading() -> None:
    for gives, says in (
        (_Measurement(2.0, {0: 0.0}), "did not move"),
        (_Measurement(2.0), "there is no counter: cpu, dram, gpu"),
        (_Measurement(0.0, {0: 5.0}), "took 0.0 s"),
        (_Measurement(-1.0, {0: 5.0}), "took -1.0 s"),
        (_Measurement(float("nan"), {0: 5.0}), "took nan s"),
    ):
        with pytest.raises(MpsprobeError, match=says):
            _measured(gives)
        with pytest.raises(MpsprobeError, match="no step came to its end"):
            _measured(gives, steps=0)


def test_a_window_that_was_too_short_says_so() -> None:
    assert any("window of 0.40 s" in one for one in _measured(_Measurement(0.4, {0: 3.0})).caveats)


def test_only_the_gpu_that_runs_is_watched() -> None:
    make = Mock(side_effect=_ZeusMonitor)
    assert EnergyProbe(make).unavailable(_Gpu()) is None
    reason = EnergyProbe(make).unavailable(FakeDevice("cpu"))
    assert [call.args for call in make.call_args_list] == [([0],), ([],)]
    assert reason is not None and reason.startswith("zeus finds no energy counter of cpu here")


def test_a_gpu_that_cannot_be_asked_leaves_the_rest() -> None:
    reading = _measured(None, make=Mock(side_effect=[ValueError("No GPUs available."), _ZeusMonitor([], [0])]))
    assert reading.values["cpu_mj"] == 5000 and "the GPU was not measured: No GPUs available." in reading.caveats


def test_zeus_that_is_not_there_or_fails_is_a_reason() -> None:
    for error, reason in (
        (ModuleNotFoundError("No module named 'zeus'", name="zeus.monitor"), NOT_INSTALLED),
        (ModuleNotFoundError("No module named 'amdsmi'", name="amdsmi"), "zeus: No module named 'amdsmi'"),
        (OSError("driver\nis asleep"), "zeus cannot be started: OSError: driver"),
    ):
        probe = EnergyProbe(Mock(side_effect=error))
        assert probe.unavailable(_Gpu()) == probe.unavailable(FakeDevice()) == reason


def test_the_monitor_is_zeus(monkeypatch: pytest.MonkeyPatch) -> None:
    modules = {"zeus.monitor": SimpleNamespace(ZeusMonitor=_ZeusMonitor)}
    monkeypatch.setattr(importlib, "import_module", modules.__getitem__)
    assert make_monitor([3]).gpu_indices == [3]


def test_a_sensor_that_vanishes_midway_reaches_the_session() -> None:
    with pytest.raises(OSError, match="lost"):
        _measured(OSError("GPU is lost"))
