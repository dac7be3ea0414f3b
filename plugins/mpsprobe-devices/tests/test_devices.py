"""The devices: the CPU for real, CUDA and MPS as far as they can be had here."""

from __future__ import annotations

import inspect
import platform
import sys
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
import torch
from packaging.version import Version

from mpsprobe.errors import UsageError
from mpsprobe.protocols import Device, RunOptions, TorchRun
from mpsprobe_devices.counted import Memory
from mpsprobe_devices.cpu import CpuDevice
from mpsprobe_devices.cuda import CudaDevice
from mpsprobe_devices.mps import PEAKS_SINCE, MpsDevice
from mpsprobe_devices.torch_device import TorchDevice


class _Tiny:
    name, framework = "tiny", "torch"

    def build(self, options: RunOptions) -> TorchRun:
        model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.LayerNorm(8), torch.nn.Linear(8, 2))
        return TorchRun(model, (torch.ones(3, 4),), loss=lambda output: output.float().pow(2).mean(), batch_size=3)

    def describe(self) -> dict[str, Any]:
        return {}


@pytest.mark.parametrize("made", [CpuDevice, CudaDevice, MpsDevice])
def test_each_is_a_device(made: type[TorchDevice]) -> None:
    assert isinstance(made(), Device)
    reason = made().unavailable()
    assert reason is None or (reason and "\n" not in reason)


def test_the_cpu_is_there_and_counts_no_memory() -> None:
    device = CpuDevice()
    assert device.unavailable() is None and device.memory() == Memory(None, None) and device.reset_peak() is False
    described = device.describe()
    assert described.type == "cpu" and described.name and int(described.capabilities["threads"]) >= 1


class _Unused(torch.nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.weight


def test_parameters_without_a_gradient_are_named_once(monkeypatch: pytest.MonkeyPatch) -> None:
    workload = _Tiny()
    monkeypatch.setattr(workload, "build", lambda _: TorchRun(_Unused(2, 2), (torch.ones(2, 2),), loss=torch.sum))
    steps = CpuDevice().open(workload, RunOptions(phase="training"))
    for _ in range(2):
        steps.step()
    (note,) = steps.info.notes
    assert note.startswith("1 of 2 parameters got no gradient") and note.endswith(": bias")
    steps.close()


@pytest.mark.parametrize("phase", ["inference", "training"])
def test_a_step_and_its_phases(phase: str) -> None:
    steps = CpuDevice().open(_Tiny(), RunOptions(phase=phase, grad_accum=2 if phase == "training" else 1))
    before = [p.detach().clone() for p in steps._step.run.model.parameters()]
    steps.step()
    changed = any(not torch.equal(a, b) for a, b in zip(before, steps._step.run.model.parameters(), strict=True))
    assert changed is (phase == "training")
    wanted = {"forward"} if phase == "inference" else {"forward", "backward", "optimizer"}
    found = steps.phases()
    assert set(found) == wanted and all(spent > 0 for spent in found.values())
    assert steps.info.batch_size == 3 and steps.info.parameters == 4 * 8 + 8 + 16 + 8 * 2 + 2
    steps.close()
    steps.close()


def test_a_training_step_is_trainers() -> None:
    steps = CpuDevice().open(_Tiny(), RunOptions(phase="training"))
    assert steps.info.optimizer == "AdamW (fused)"
    steps.step()
    gradients = [parameter.grad for parameter in steps._step.parameters]
    assert gradients == [None] * len(gradients)


def test_autocast_reaches_the_model() -> None:
    seen: list[torch.dtype] = []

    class Autocast(_Tiny):
        def build(self, options: RunOptions) -> TorchRun:
            run = super().build(options)
            run.model.register_forward_hook(lambda _module, _inputs, output: seen.append(output.dtype))
            return run

    CpuDevice().open(Autocast(), RunOptions(autocast="bfloat16")).step()
    assert seen == [torch.bfloat16]


@pytest.mark.parametrize(
    ("error", "full"),
    [
        (torch.OutOfMemoryError("CUDA out of memory"), True),
        (RuntimeError("MPS backend out of memory (MPS allocated: 9 GB)"), True),
        (MemoryError(), True),
        (RuntimeError("shapes do not match"), False),
    ],
)
def test_which_errors_are_about_memory(error: Exception, full: bool) -> None:
    assert CpuDevice().is_out_of_memory(error) is full


def test_cuda_says_why_it_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    if torch.version.cuda is None:
        assert "built without CUDA" in (CudaDevice().unavailable() or "")
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)

    def refuse() -> int:
        raise RuntimeError("Found no NVIDIA driver on your system.\nInstall one.")

    monkeypatch.setattr(torch.cuda, "current_device", refuse)
    assert CudaDevice().unavailable() == "Found no NVIDIA driver on your system."


@pytest.mark.parametrize(
    ("system", "built", "available", "says"),
    [
        ("Linux", False, False, "needs a Mac"),
        ("Darwin", False, False, "built without MPS"),
        ("Darwin", True, False, "finds no MPS device"),
        ("Darwin", True, True, None),
    ],
)
def test_mps_says_why_it_is_not_there(
    monkeypatch: pytest.MonkeyPatch, system: str, built: bool, available: bool, says: str | None
) -> None:
    monkeypatch.setattr(platform, "system", lambda: system)
    monkeypatch.setattr(torch.backends.mps, "is_built", lambda: built)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: available)
    reason = MpsDevice().unavailable()
    assert (reason is None) if says is None else (reason is not None and says in reason)


class _Event:
    """A timing event: ``elapsed_time`` is in ms, and refuses before both are recorded."""

    made: list[dict[str, Any]] = []

    def __init__(self, enable_timing: bool = False) -> None:
        self.made.append({"enable_timing": enable_timing, "calls": []})
        self.mine = self.made[-1]["calls"]

    def record(self) -> None:
        self.mine.append("record")

    def synchronize(self) -> None:
        assert self.mine == ["record"]
        self.mine.append("synchronize")

    def elapsed_time(self, end_event: _Event) -> float:
        assert self.mine == ["record"] and end_event.mine == ["record", "synchronize"]
        return 1.25


def test_a_stopwatch_waits_for_its_second_event(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Event, "made", [])
    for device, where in ((CudaDevice(), torch.cuda), (MpsDevice(), torch.mps)):
        monkeypatch.setattr(where, "Event", _Event)
        monkeypatch.setattr(torch, "__version__", "2.15.0")
        assert device.clock_unavailable() is None
        watch = device.stopwatch()
        for _ in range(2):
            watch.start()
            assert watch.stop() == 1_250_000.0
    assert len(_Event.made) == 8 and all(one["enable_timing"] for one in _Event.made)


def test_events_that_cannot_be_trusted_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "__version__", "2.14.1")
    assert "pytorch#196395" in (MpsDevice().clock_unavailable() or "")
    with pytest.raises(UsageError, match="can hang"):
        MpsDevice().stopwatch()
    assert "host itself" in (CpuDevice().clock_unavailable() or "")
    with pytest.raises(UsageError, match="host itself"):
        CpuDevice().stopwatch()


def test_the_events_of_this_torch_take_what_they_are_given() -> None:
    for event in (torch.mps.Event, torch.cuda.Event):
        inspect.signature(event.record).bind(None)
        inspect.signature(event.synchronize).bind(None)
        inspect.signature(event.elapsed_time).bind(None, None)
    inspect.signature(torch.mps.Event).bind(enable_timing=True)


def _nvidia(monkeypatch: pytest.MonkeyPatch, driver: Any) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", driver)
    for name, value in {"temperature": 41, "power_draw": 120_500, "clock_rate": 1980, "current_device": 0}.items():
        inspect.signature(getattr(torch.cuda, name)).bind()
        monkeypatch.setattr(torch.cuda, name, lambda value=value: value)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: SimpleNamespace(uuid="1234-abcd"))


class _Driver:
    """The functions of nvidia-ml-py that are used, with its arguments."""

    NVML_PERF_POLICY_POWER, NVML_PERF_POLICY_THERMAL = 0, 1
    opened = 0

    def nvmlInit(self) -> None:  # noqa: N802
        self.opened += 1

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.opened -= 1

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:  # noqa: N802
        return f"handle of {uuid}"

    def nvmlDeviceGetViolationStatus(self, device: str, perfPolicyType: int) -> Any:  # noqa: N802, N803
        assert device == "handle of GPU-1234-abcd"
        return SimpleNamespace(referenceTime=5, violationTime=(7_000, 9_000)[perfPolicyType])


def test_the_state_of_an_nvidia_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = _Driver()
    _nvidia(monkeypatch, driver)
    basic = {"gpu_celsius": 41.0, "gpu_mw": 120_500.0, "gpu_mhz": 1980.0}
    counters = {"gpu_heat_throttled_ns": 9_000.0, "gpu_power_limit_throttled_ns": 7_000.0}
    assert CudaDevice().state() == basic | counters and driver.opened == 0

    def refuse(device: str, policy: int) -> Any:
        raise RuntimeError("Not Supported")

    monkeypatch.setattr(driver, "nvmlDeviceGetViolationStatus", refuse)
    assert CudaDevice().state() == basic and driver.opened == 0


def test_without_nvidia_ml_py_the_state_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_what_the_cpu_is() -> None:
    described = CpuDevice().describe()
    assert described.memory_bytes == psutil.virtual_memory().total and described.capabilities["torch"]


MPS_CALLS = {
    torch.mps: ("synchronize", "current_allocated_memory", "driver_allocated_memory", "empty_cache"),
    torch.backends.mps: ("is_built", "is_available"),
}
if Version(torch.__version__) >= PEAKS_SINCE:
    MPS_CALLS[torch.accelerator] = ("reset_peak_memory_stats", "max_memory_allocated", "max_memory_reserved")


def test_what_is_called_on_mps_exists_and_needs_no_argument() -> None:
    for module, names in MPS_CALLS.items():
        for name in names:
            inspect.signature(getattr(module, name)).bind()


def test_mps_against_a_double(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def double(name: str, value: Any = None) -> Any:
        def call() -> Any:
            calls.append(name)
            return value

        return call

    for name, value in {
        "synchronize": None,
        "current_allocated_memory": 10,
        "driver_allocated_memory": 20,
        "empty_cache": None,
        "recommended_max_memory": 36 * 10**9,
    }.items():
        monkeypatch.setattr(torch.mps, name, double(name, value), raising=False)
    monkeypatch.setattr(torch.backends.mps, "is_macos_or_newer", lambda major, minor: (major, minor) <= (15, 0))
    monkeypatch.setattr(torch.backends.mps, "get_name", double("get_name", "Apple M3 Max"), raising=False)
    monkeypatch.setattr(torch.backends.mps, "get_core_count", double("get_core_count", 40), raising=False)
    peaks = {"reset_peak_memory_stats": None, "max_memory_allocated": 30, "max_memory_reserved": 40}
    for name, value in peaks.items():
        monkeypatch.setattr(torch.accelerator, name, double(name, value), raising=False)
    monkeypatch.setattr(torch, "__version__", str(PEAKS_SINCE))
    device = MpsDevice()
    device.synchronize()
    device.empty_cache()
    assert device.memory() == Memory(10, 20)
    assert device.reset_peak() and device.peak() == Memory(30, 40)
    described = device.describe()
    assert (described.name, described.memory_bytes) == ("Apple M3 Max", 36 * 10**9)
    assert described.capabilities["gpu_cores"] == "40"
    assert set(calls) >= {"synchronize", "empty_cache", "max_memory_allocated"}


def test_a_release_without_peaks_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "__version__", "2.12.1")
    assert MpsDevice().reset_peak() is False
    monkeypatch.setattr(torch, "__version__", "2.13.0")

    def refuse() -> None:
        raise NotImplementedError("no statistics")

    monkeypatch.setattr(torch, "accelerator", SimpleNamespace(reset_peak_memory_stats=refuse))
    assert MpsDevice().reset_peak() is False
