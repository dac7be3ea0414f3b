"""Energy, against a double with the signatures and units of zeus 0.16.0."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field, make_dataclass
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from mpsprobe.errors import MpsprobeError
from mpsprobe.protocols import Probe
from mpsprobe.schemas import ProbeReading
from mpsprobe_devices.probes.energy import NOT_INSTALLED, SHORTEST_NS, EnergyProbe, make_monitor
from mpsprobe_devkit.testing.fakes import FakeClock, FakeDevice, FakeSteps

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
