"""A sample profile for the tests of exporters: a training step on MPS with everything that a report can hold."""

from __future__ import annotations

from typing import Any

from mpsprobe.schemas import (
    Counter,
    DeviceInfo,
    FallbackCost,
    MemoryCurve,
    MemoryUse,
    ModuleTime,
    OperatorTime,
    ProbeReading,
    ProfileCell,
    ProfilePlan,
    ProfileReport,
    RunFailure,
    TableProvenance,
    Throughput,
    Trace,
    Track,
    UnavailableProbe,
)
from mpsprobe_devkit.testing.reports import ENVIRONMENT, WORKLOAD

US = 1_000
HOST, DEVICE = 0, 1
LINEAR, QR = "aten::linear", "aten::linalg_qr.out"


class _Events:
    """Events of a trace, one by one; tables of names and details are made on the way."""

    def __init__(self) -> None:
        self._names: dict[str, int] = {}
        self._categories: dict[str, int] = {}
        self._details: list[dict[str, str]] = []
        self._rows: list[tuple[int, ...]] = []

    def add(self, name: str, category: str, track: int, start_us: int, spent_us: int, **more: Any) -> None:
        """One event; ``flow`` and ``detail`` as ``Trace`` has them."""
        detail = more.get("detail")
        if detail is not None:
            self._details.append(detail)
        row = (
            self._names.setdefault(name, len(self._names)),
            self._categories.setdefault(category, len(self._categories)),
            track,
            -1 if detail is None else len(self._details) - 1,
            more.get("flow", 0),
            start_us * US,
            spent_us * US,
        )
        self._rows.append(row)

    def trace(self, **more: Any) -> Trace:
        """Ordered by start, the longer of two that start together first."""
        rows = sorted(self._rows, key=lambda row: (row[5], -row[6]))
        columns = ("name", "category", "track", "detail", "flow", "start_ns", "duration_ns")
        return Trace.model_validate(
            {
                "names": list(self._names),
                "categories": list(self._categories),
                "tracks": [
                    Track(name="python", kind="host", process=1, thread=1),
                    Track(name="MPS queue", kind="device", process=1, thread=7),
                ],
                "details": self._details,
                **{name: [row[index] for row in rows] for index, name in enumerate(columns)},
                **more,
            }
        )


def sample_trace(steps: int = 2) -> Trace:
    """Training steps of 1 ms: modules with operators, kernels joined to their launches, a fallback with copies."""
    events = _Events()
    for index in range(steps):
        at, flow = index * 1_000, index * 10
        events.add(f"ProfilerStep#{index}", "step", HOST, at, 1_000)
        events.add("forward", "phase", HOST, at, 500)
        events.add("nn.Module: SampleModel", "module", HOST, at, 490, detail={"module": "", "type": "SampleModel"})
        inner = {"module": "encoder.0", "type": "Linear"}
        events.add("nn.Module: Linear", "module", HOST, at + 10, 200, detail=inner)
        shapes = {"shapes": "[2, 128, 768] [768, 768]", "dtypes": "float32 float32"}
        events.add(LINEAR, "operator", HOST, at + 20, 150, detail=shapes)
        events.add("commit", "launch", HOST, at + 100, 20, flow=flow + 1)
        events.add("gemm_float", "kernel", DEVICE, at + 130, 160, flow=flow + 1)
        events.add(QR, "fallback", HOST, at + 300, 150, detail={"verdict": "missing", "bytes": "1572864"})
        events.add("MPS to CPU", "copy", DEVICE, at + 305, 40, detail={"bytes": "786432"})
        events.add("CPU to MPS", "copy", DEVICE, at + 400, 40, detail={"bytes": "786432"})
        events.add("backward", "phase", HOST, at + 500, 400)
        events.add("aten::mm", "operator", HOST, at + 520, 100)
        events.add("commit", "launch", HOST, at + 560, 20, flow=flow + 2)
        events.add("gemm_float", "kernel", DEVICE, at + 600, 280, flow=flow + 2)
        events.add("optimizer", "phase", HOST, at + 900, 100)
    times = [index * 500 * US for index in range(2 * steps)]
    counters = [
        Counter(name="allocated_bytes", times_ns=times, values=[1e6 + 5e5 * (index % 2) for index in range(2 * steps)]),
        Counter(name="gpu_power_mw", times_ns=times, values=[9_000.0 + index for index in range(2 * steps)]),
    ]
    return events.trace(counters=counters)


def _statistics(durations: list[int]) -> dict[str, Any]:
    ordered = sorted(durations)
    return {
        "count": len(ordered),
        "median_ns": ordered[len(ordered) // 2],
        "low_ns": ordered[1],
        "high_ns": ordered[-2],
        "spread": 0.0148,
        "minimum_ns": ordered[0],
        "maximum_ns": ordered[-1],
        "mean_ns": sum(ordered) / len(ordered),
        "outliers": 1,
    }


def sample_cell(device: str = "mps", step_us: int = 1_000, batch_size: int = 2) -> ProfileCell:
    """One configuration, measured; its five steps take about ``step_us``, the last one is an outlier."""
    durations = [round(step_us * share * US) for share in (0.99, 1.0, 1.0, 1.01, 1.5)]
    rate = {"per_second": batch_size * 1e6 / step_us, "low": batch_size * 9.9e5 / step_us}
    return ProfileCell.model_validate(
        {
            "workload": WORKLOAD.name,
            "phase": WORKLOAD.phase,
            "device": device,
            "batch_size": batch_size,
            "seq_len": 128,
            "dtype": "float32",
            "first_call_ns": [9 * step_us * US, 8 * step_us * US],
            "warmup": {"durations_ns": durations[:3], "stable": True, "rule": "3 steps, as asked"},
            "steps": [
                {"duration_ns": spent, "outlier": spent == durations[4], "process": index % 2}
                for index, spent in enumerate(durations)
            ],
            "step": _statistics(durations),
            "phases": {
                name: _statistics([round(share * spent) for spent in durations])
                for name, share in (("forward", 0.5), ("backward", 0.4), ("optimizer", 0.1))
            },
            "throughput": [Throughput(unit="samples", high=batch_size * 1.01e6 / step_us, **rate)],
            "profiled_steps": 2,
        }
    )


def sample_profile_report() -> ProfileReport:
    """Training on MPS with all that can be measured; a size that did not fit; the same on the CPU."""
    measured = {
        "memory": MemoryUse(
            source="sampled",
            allocated_bytes=1_000_000,
            reserved_bytes=4_000_000,
            peak_allocated_bytes=1_500_000,
            peak_reserved_bytes=4_000_000,
            peak_process_bytes=900_000_000,
            curve=MemoryCurve(
                times_ns=[0, 1_000_000, 2_000_000],
                allocated_bytes=[1_000_000, 1_500_000, 1_200_000],
                reserved_bytes=[4_000_000] * 3,
                process_bytes=[800_000_000, 900_000_000, 850_000_000],
            ),
        ),
        "readings": [
            ProbeReading(probe="energy", values={"gpu_mj": 812.0, "gpu_mj_per_sample": 4.06}, caveats=["window of 1 s"])
        ],
        "unavailable": [UnavailableProbe(probe="thermal", reason="the system does not tell")],
        "operators": [
            OperatorTime(
                operator=name,
                calls=2,
                host_ns=host * US,
                self_host_ns=host * US,
                device_ns=device * US,
                self_device_ns=device * US,
                shapes=["[2, 128, 768] [768, 768]"],
                modules=["encoder.0"],
                source="slow mode",
            )
            for name, host, device in ((LINEAR, 300, 320), ("aten::mm", 200, 560), (QR, 300, 0))
        ],
        "modules": [
            ModuleTime(module="", type="SampleModel", calls=2, host_ns=980 * US, self_host_ns=580 * US),
            ModuleTime(
                module="encoder.0",
                type="Linear",
                calls=2,
                host_ns=400 * US,
                self_host_ns=400 * US,
                device_ns=320 * US,
                self_device_ns=320 * US,
            ),
        ],
        "fallbacks": [
            FallbackCost(
                operator=QR,
                calls=1,
                method="observed",
                verdict="missing",
                duration_ns=150 * US,
                bytes=1_572_864,
                native_since="2.8.0",
            ),
            FallbackCost(operator="aten::col2im", calls=2, method="predicted", verdict="fallback", bytes=4_096),
        ],
        "trace": sample_trace(),
        "notes": ["the clock went back during 1 of the steps: they are left out"],
    }
    full = RunFailure(phase="build", error="OutOfMemoryError", message="no memory left on the device")
    first = sample_cell()
    failed = {"device": "mps", "batch_size": 512, "seq_len": 128, "dtype": "float32", "failure": full}
    return ProfileReport(
        workloads=[WORKLOAD.model_copy(update={"batch_size": None})],
        environment=ENVIRONMENT,
        devices=[
            DeviceInfo(type="mps", name="Apple M3 Max", memory_bytes=48 * 10**9, capabilities={"macos": "15.1"}),
            DeviceInfo(type="cpu", name="Apple M3 Max", capabilities={"threads": "12"}),
        ],
        plan=ProfilePlan(
            workloads=[WORKLOAD.name],
            phases=[WORKLOAD.phase],
            devices=["mps", "cpu"],
            batch_sizes=[2, 512],
            seq_lens=[128],
            steps=5,
            processes=2,
            baseline="cpu",
            probes=["memory", "operators", "energy", "thermal"],
        ),
        cells=[
            first.model_copy(update=measured),
            ProfileCell.model_validate({"workload": WORKLOAD.name, "phase": WORKLOAD.phase, **failed}),
            sample_cell("cpu", 6_400),
        ],
        backend="mps",
        predicted_with=TableProvenance(wheel="torch-2.13.0-cp311-none-macosx_14_0_arm64.whl", sha256="0" * 64),
        complete=False,
        notes=["made for tests"],
    )
