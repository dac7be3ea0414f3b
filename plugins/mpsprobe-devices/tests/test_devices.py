"""The devices: the CPU for real, CUDA and MPS as far as they can be had here; contracts of devices and probes."""

from __future__ import annotations

import inspect
import platform
import sys
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import psutil
import pytest
import torch
from packaging.version import Version

from mpsprobe.errors import UsageError
from mpsprobe.protocols import RunOptions, TorchRun
from mpsprobe_devices.cpu import CpuDevice
from mpsprobe_devices.cuda import CudaDevice
from mpsprobe_devices.machine import Memory
from mpsprobe_devices.mps import PEAKS_SINCE, MpsDevice
from mpsprobe_devices.plugin import mpsprobe_devices, mpsprobe_probes
from mpsprobe_devices.probes.memory import CountsMemory
from mpsprobe_devkit.testing import TinyWorkload, device_contract, probe_contract


def test_the_cpu_counts_no_memory() -> None:
    device = CpuDevice()
    assert device.unavailable() is None and not isinstance(device, CountsMemory)
    described = device.describe()
    assert described.memory_bytes == psutil.virtual_memory().total and described.capabilities["torch"]
    assert described.type == "cpu" and described.name and int(described.capabilities["threads"]) >= 1


class _Unused(TinyWorkload):
    """Its second layer gets no gradient."""

    def build(self, options: RunOptions) -> TorchRun:
        run = super().build(options)
        run.model.forward = lambda inputs: run.model[0](inputs)
        return run


def test_parameters_without_a_gradient_are_named_once() -> None:
    steps = CpuDevice().open(_Unused(), RunOptions(phase="training"))
    for _ in range(3):
        steps.step()
    (note,) = steps.info.notes
    assert note.startswith("2 of 4 parameters got no gradient") and note.endswith(": 2.weight, 2.bias")


@pytest.mark.parametrize("phase", ["inference", "training"])
def test_a_step_and_its_phases(phase: str) -> None:
    steps = CpuDevice().open(TinyWorkload(), RunOptions(phase=phase, grad_accum=2 if phase == "training" else 1))
    before = [p.detach().clone() for p in steps._step.run.model.parameters()]
    steps.step()
    changed = any(not torch.equal(a, b) for a, b in zip(before, steps._step.run.model.parameters(), strict=True))
    assert changed is (phase == "training")
    assert steps.info.optimizer == ("AdamW (fused)" if phase == "training" else None)
    found = steps.phases()
    assert set(found) == ({"forward"} if phase == "inference" else {"forward", "backward", "optimizer"})
    assert all(spent > 0 for spent in found.values())
    assert (steps.info.batch_size, steps.info.parameters) == (2, 30)


def test_which_errors_are_about_memory() -> None:
    of_mps = RuntimeError("MPS backend out of memory (MPS allocated: 9 GB)")
    for error in (torch.OutOfMemoryError("CUDA out of memory"), of_mps, MemoryError()):
        assert CpuDevice().is_out_of_memory(error)
    assert not CpuDevice().is_out_of_memory(RuntimeError("shapes do not match"))


def test_cuda_says_why_it_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    if torch.version.cuda is None:
        assert "built without CUDA" in (CudaDevice().unavailable() or "")
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    says = RuntimeError("Found no NVIDIA driver on your system.\nInstall one.")
    monkeypatch.setattr(torch.cuda, "current_device", Mock(side_effect=says))
    assert CudaDevice().unavailable() == "Found no NVIDIA driver on your system."


def test_mps_says_why_it_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    for system, built, available, says in (
        ("Linux", False, False, "needs a Mac"),
        ("Darwin", False, False, "built without MPS"),
        ("Darwin", True, False, "finds no MPS device"),
        ("Darwin", True, True, "None"),
    ):
        monkeypatch.setattr(platform, "system", lambda answer=system: answer)
        monkeypatch.setattr(torch.backends.mps, "is_built", lambda answer=built: answer)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda answer=available: answer)
        assert says in str(MpsDevice().unavailable())


class _Event:
    """A timing event: ``elapsed_time`` is in ms, and refuses before both are recorded."""

    def __init__(self, enable_timing: bool = False) -> None:
        assert enable_timing
        self.calls: list[str] = []

    def record(self) -> None:
        self.calls.append("record")

    def synchronize(self) -> None:
        self.calls.append("synchronize")

    def elapsed_time(self, end_event: _Event) -> float:
        assert self.calls == ["record"] and end_event.calls == ["record", "synchronize"]
        return 1.25


def test_a_stopwatch_waits_for_its_second_event(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "__version__", "2.15.0")
    for device, where in ((CudaDevice(), torch.cuda), (MpsDevice(), torch.mps)):
        monkeypatch.setattr(where, "Event", _Event)
        assert device.clock_unavailable() is None
        watch = device.stopwatch()
        for _ in range(2):  # each time two new events
            watch.start()
            assert watch.stop() == 1_250_000.0


def test_events_that_cannot_be_trusted_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "__version__", "2.14.1")
    assert "pytorch#196395" in (MpsDevice().clock_unavailable() or "")
    assert "host itself" in (CpuDevice().clock_unavailable() or "")
    for device, says in ((MpsDevice(), "can hang"), (CpuDevice(), "host itself")):
        with pytest.raises(UsageError, match=says):
            device.stopwatch()


class _Driver:
    """The functions of nvidia-ml-py that are used, with its arguments."""

    NVML_PERF_POLICY_POWER, NVML_PERF_POLICY_THERMAL = 0, 1
    opened = 0
    counts = True

    def nvmlInit(self) -> None:  # noqa: N802
        self.opened += 1

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.opened -= 1

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:  # noqa: N802
        return f"handle of {uuid}"

    def nvmlDeviceGetViolationStatus(self, device: str, perfPolicyType: int) -> Any:  # noqa: N802, N803
        assert device == "handle of GPU-1234-abcd"
        if not self.counts:
            raise RuntimeError("Not Supported")
        return SimpleNamespace(referenceTime=5, violationTime=(7_000, 9_000)[perfPolicyType])


def test_the_state_of_an_nvidia_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = _Driver()
    monkeypatch.setitem(sys.modules, "pynvml", driver)
    for name, value in {"temperature": 41, "power_draw": 120_500, "clock_rate": 1980, "current_device": 0}.items():
        inspect.signature(getattr(torch.cuda, name)).bind()
        monkeypatch.setattr(torch.cuda, name, Mock(return_value=value))
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: SimpleNamespace(uuid="1234-abcd"))
    basic = {"gpu_celsius": 41.0, "gpu_mw": 120_500.0, "gpu_mhz": 1980.0}
    counters = {"gpu_heat_throttled_ns": 9_000.0, "gpu_power_limit_throttled_ns": 7_000.0}
    assert CudaDevice().state() == basic | counters and driver.opened == 0
    driver.counts = False
    assert CudaDevice().state() == basic and driver.opened == 0
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(UsageError, match=r"mpsprobe-devices\[nvidia\]"):
        CudaDevice().state()


def test_what_a_gpu_is(monkeypatch: pytest.MonkeyPatch) -> None:
    properties = SimpleNamespace(major=9, minor=0, multi_processor_count=132, name="NVIDIA H200", total_memory=150)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: properties)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    inspect.signature(torch.cuda.is_bf16_supported).bind(including_emulation=False)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda *, including_emulation: not including_emulation)
    monkeypatch.setattr(torch.backends.cudnn, "version", lambda: 91002)
    monkeypatch.setattr(torch.cuda, "memory_stats", lambda: {"allocated_bytes.all.current": 5, "x": 1})
    described = CudaDevice().describe()
    assert (described.name, described.memory_bytes) == ("NVIDIA H200", 150)
    wanted = {"compute_capability": "9.0", "bfloat16": "yes", "float16": "yes", "cudnn": "91002", "tf32": "off"}
    assert wanted.items() <= described.capabilities.items()
    assert CudaDevice().memory() == Memory(5, 0) and CudaDevice().index() == 0


def test_what_is_called_on_mps_exists_and_needs_no_argument() -> None:
    names = {
        torch.mps: ["synchronize", "current_allocated_memory", "driver_allocated_memory", "empty_cache"],
        torch.backends.mps: ["is_built", "is_available"],
    }
    if Version(torch.__version__) >= PEAKS_SINCE:
        names[torch.accelerator] = ["reset_peak_memory_stats", "max_memory_allocated", "max_memory_reserved"]
    for module, functions in names.items():
        for name in functions:
            inspect.signature(getattr(module, name)).bind()
    for event in (torch.mps.Event, torch.cuda.Event):
        inspect.signature(event.record).bind(None)
        inspect.signature(event.synchronize).bind(None)
        inspect.signature(event.elapsed_time).bind(None, None)
    inspect.signature(torch.mps.Event).bind(enable_timing=True)


def test_mps_against_a_double(monkeypatch: pytest.MonkeyPatch) -> None:
    doubles: dict[Any, dict[str, Any]] = {
        torch.mps: {
            "synchronize": None,
            "empty_cache": None,
            "current_allocated_memory": 10,
            "driver_allocated_memory": 20,
            "recommended_max_memory": 36 * 10**9,
        },
        torch.backends.mps: {"get_name": "Apple M3 Max", "get_core_count": 40, "is_macos_or_newer": True},
        torch.accelerator: {"reset_peak_memory_stats": None, "max_memory_allocated": 30, "max_memory_reserved": 40},
    }
    made = {name: Mock(return_value=value) for answers in doubles.values() for name, value in answers.items()}
    for module, answers in doubles.items():
        for name in answers:
            monkeypatch.setattr(module, name, made[name], raising=False)
    monkeypatch.setattr(torch, "__version__", str(PEAKS_SINCE))
    device = MpsDevice()
    device.synchronize()
    device.empty_cache()
    assert device.memory() == Memory(10, 20)
    assert device.reset_peak() and device.peak() == Memory(30, 40)
    described = device.describe()
    assert (described.name, described.memory_bytes) == ("Apple M3 Max", 36 * 10**9)
    assert (described.capabilities["gpu_cores"], described.capabilities["bfloat16"]) == ("40", "yes")
    made.pop("is_macos_or_newer").assert_called_once_with(14, 0)
    assert [name for name, function in made.items() if function.call_count != 1] == []
    monkeypatch.delattr(torch.backends.mps, "get_name")  # before torch 2.9
    monkeypatch.setattr("mpsprobe_devices.mps.processor_name", lambda: "Apple M1 Pro")
    assert device.describe().name == "Apple M1 Pro", "the chip of a profile"


def test_a_release_without_peaks_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "__version__", "2.12.1")
    assert MpsDevice().reset_peak() is False
    monkeypatch.setattr(torch, "__version__", "2.13.0")
    refuse = Mock(side_effect=NotImplementedError("no statistics"))
    monkeypatch.setattr(torch, "accelerator", SimpleNamespace(reset_peak_memory_stats=refuse))
    assert MpsDevice().reset_peak() is False


DEVICES = {one.name: one for one in mpsprobe_devices()}
PROBES = {one.name: one for one in mpsprobe_probes()}

TestCpu = device_contract(DEVICES["cpu"])
TestCuda = device_contract(DEVICES["cuda"])  # where there is none: that it says so
TestMps = device_contract(DEVICES["mps"])

TestMemory = probe_contract(PROBES["memory"], device=CpuDevice, workload=TinyWorkload())
TestMemoryElsewhere = probe_contract(PROBES["memory"])
TestHost = probe_contract(PROBES["host"])
TestThermal = probe_contract(PROBES["thermal"])
TestEnergy = probe_contract(PROBES["energy"])
TestOperators = probe_contract(PROBES["operators"], device=CpuDevice, workload=TinyWorkload())
TestOperatorsElsewhere = probe_contract(PROBES["operators"])


def test_what_disturbs_the_steps_does_not_run_unasked() -> None:
    assert [name for name, one in PROBES.items() if one.default] == ["memory", "host", "thermal"]
