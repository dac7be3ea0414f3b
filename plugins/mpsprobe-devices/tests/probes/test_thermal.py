"""Heat and power before and after: each source against doubles, and what makes a reading doubtful."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from types import SimpleNamespace
from unittest.mock import Mock

import psutil
import pytest

from mpsprobe.protocols import Probe
from mpsprobe.schemas import ProbeReading
from mpsprobe_devices.probes import thermal
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
