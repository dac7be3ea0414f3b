"""What torch-tb-profiler 0.4.3 shows of a profile, by its own parser. TensorBoard itself is not started."""

from __future__ import annotations

import gzip
import json
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from example_reports import HOSTILE, hostile_profile
from hypothesis import HealthCheck, given, settings
from reports_with_traces import (
    DEVICE,
    HOST,
    KERNEL,
    LAUNCH,
    OPERATOR,
    STEP,
    hostile_report,
    read,
    report_of,
    trace_of,
    traces,
)

from mpsprobe import exporting
from mpsprobe.errors import ReportError
from mpsprobe.output import write_folder
from mpsprobe.plugins.registry import Registry
from mpsprobe.schemas import Counter, MemoryCurve, MemoryUse, ProfileReport, Trace, Track
from mpsprobe_devkit.testing import sample_profile_report
from mpsprobe_exporters.traces.tensorboard import AT_FIRST, TensorboardExporter


class Views(NamedTuple):
    """What the views of one worker show: times in µs, memory and peaks by device, and how many points a curve has."""

    names: list[str]
    steps: list[tuple[str, float]]
    costs: dict[str, float]
    operators: dict[str, dict[str, Any]]
    kernels: list[list[Any]]
    modules: list[Any]
    memory: dict[str, dict[str, float]]
    peaks: dict[str, float]
    curves: dict[str, int]
    gpu: dict[str, str]


def views(path: Path, scratch: Path) -> Views:
    """Parse ``path`` as the plugin does when TensorBoard finds it; what it raises loses the run there too."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the plugin is older than its pandas
        from torch_tb_profiler.profiler.data import RunProfileData
        from torch_tb_profiler.profiler.event_parser import ProfileRole
        from torch_tb_profiler.profiler.run_generator import RunGenerator

        data = RunProfileData.parse("worker", "", str(path), str(scratch))
        run = RunGenerator("worker", "", data).generate_run_profile()
        snapshot = run.memory_snapshot
        statistics = snapshot.get_memory_statistics(run.tid2tree) if snapshot else {}
        return Views(
            [view.display_name for view in run.views],
            list(zip(data.steps_names, (one.costs[ProfileRole.Total] for one in data.steps_costs), strict=True)),
            {role.name: sum(cost.costs[role] for cost in data.steps_costs) for role in ProfileRole},
            {row["name"]: row for row in run.operation_table_by_name["data"]},
            run.kernel_table["data"]["rows"] if data.has_kernel else [],
            run.module_stats or [],
            {device: dict(found) for device, found in statistics.items()},
            {f"{kind.name}{at}": peak for (kind, at), peak in (snapshot.get_peak_memory() if snapshot else {}).items()},
            {device: len(rows) for device, rows in run.get_memory_curve()["rows"].items()} if snapshot else {},
            {row["title"]: row["value"] for row in run.gpu_summary or []},
        )


ALL = ["Overview", "Operator", "Kernel", "Trace", "Memory", "Module"]


def written(report: ProfileReport, folder: Path) -> list[Path]:
    """The workers' files, in order, each compared with the rules of the format."""
    run = write_folder(folder, TensorboardExporter().files(report))
    found = sorted(run.iterdir())
    for path in found:
        read(gzip.decompress(path.read_bytes()).decode())
    return found


def seen(report: ProfileReport, folder: Path) -> Views:
    """What the plugin shows of the first worker."""
    return views(written(report, folder)[0], folder)


def test_every_view_of_the_sample_has_content(tmp_path: Path) -> None:
    found = seen(sample_profile_report(), tmp_path)
    assert sorted(found.names) == sorted(ALL)
    names = [path.name for path in sorted((tmp_path / "sample-training").iterdir())]
    ending = "batch-2-sequence-128-float32.pt.trace.json.gz"
    assert names == [f"1-mps-{ending}", f"2-cpu-{ending}"], "counted, so that the first comes first"
    assert found.steps == [("0", 1000.0), ("1", 1000.0)]
    assert (found.costs["Kernel"], found.costs["Memcpy"], found.costs["Runtime"]) == (880.0, 160.0, 80.0)
    assert found.kernels[0][0] == "gemm_float" and found.kernels[0][2:4] == [4, 880]
    assert found.operators["aten::linear"]["device_self_duration"] == 320
    assert found.operators["aten::linalg_qr.out"]["host_total_duration"] == 300
    [model] = found.modules
    assert (model.name, model.occurences, model.device_duration) == ("SampleModel", 2, 320.0)
    assert [child.name for child in model.children] == ["encoder.0 (Linear)"]
    assert found.peaks == {"CUDA0": 1_500_000} and list(found.memory) == ["GPU0"]  # else the view offers no device
    assert found.curves == {"GPU0": 7}  # four values, and before three of them the one that held until then
    assert found.gpu["Name"] == "Apple M3 Max" and found.gpu["GPU Utilization"] == "44.0 %"


def test_a_cell_without_a_trace_has_its_steps_and_its_memory(tmp_path: Path) -> None:
    found = seen(report_of(None), tmp_path)
    assert sorted(found.names) == ["Memory", "Operator", "Overview", "Trace"]
    # Two processes, one after the other: 0.99, 1, 1.5 ms and 1, 1.01 ms.
    assert [spent for _, spent in found.steps] == [990.0, 1000.0, 1500.0, 1000.0, 1010.0]
    assert found.peaks == {"CUDA0": 1_500_000}


def test_memory_of_the_timed_steps_stands_in_where_the_trace_has_none(tmp_path: Path) -> None:
    trace = sample_profile_report().cells[0].trace
    assert trace is not None
    without = trace.model_copy(update={"counters": []})
    found = seen(report_of(without), tmp_path)
    assert found.peaks == {"CUDA0": 1_500_000} and list(found.memory["GPU0"]) == [AT_FIRST]
    # Where only the process is measured, its footprint is the memory of the CPU.
    used = MemoryUse(source="sampled", curve=MemoryCurve(times_ns=[0, 10, 20], process_bytes=[100, 300, 200]))
    for number, made in enumerate((without, None)):
        found = seen(report_of(made, memory=used, device="cpu"), tmp_path / str(number))
        assert found.peaks == {"CPU-1": 300}


def test_an_operator_is_charged_with_what_changed_while_it_ran(tmp_path: Path) -> None:
    rows = [(0, STEP, HOST, -1, 0, 0, 1000), (1, OPERATOR, HOST, -1, 0, 100, 100), (2, OPERATOR, HOST, -1, 0, 300, 100)]
    values = [1000.0, 1500.0, 1100.0]
    curves = [
        Counter(name="allocated_bytes", times_ns=[50, 150, 350], values=values),
        Counter(name="reserved_bytes", times_ns=[50, 350], values=[2000.0, 3000.0]),
        Counter(name="cpu_allocated_bytes", times_ns=[110], values=[64.0]),
    ]
    found = seen(report_of(trace_of(rows, ["s", "aten::a", "aten::b"], counters=curves)), tmp_path)
    # Self increase, allocated by itself, its allocations; the same with what it calls; calls.
    assert found.memory["GPU0"] == {
        AT_FIRST: [1000, 1000, 1, 1000, 1000, 1, 2],
        "aten::a": [500, 500, 1, 500, 500, 1, 1],
        "aten::b": [-400, 0, 0, -400, 0, 0, 1],
    }
    assert found.memory["CPU"] == {AT_FIRST: [64, 64, 1, 64, 64, 1, 2]}
    assert found.peaks == {"CUDA0": 1500, "CPU-1": 64}


def test_kernels_without_operators_or_steps_still_make_an_overview(tmp_path: Path) -> None:
    rows = [(0, KERNEL, DEVICE, -1, 0, 0, 700), (1, KERNEL, DEVICE, -1, 0, 900, 100)]
    found = seen(report_of(trace_of(rows)), tmp_path)
    assert found.steps == [("0", pytest.approx(1.0, abs=0.001))]
    assert found.costs["Kernel"] == pytest.approx(0.8, abs=0.002)
    stream = Track(name="stream 7", kind="device", process=5, thread=7)
    found = seen(
        report_of(trace_of([(0, KERNEL, HOST, -1, 0, 0, 5_000)], ["gemm"], tracks=[stream])), tmp_path
    )  # the strict reader asks for the names
    assert found.kernels and found.costs["Total"] > 0


def test_a_step_that_the_device_works_through_is_no_step_to_the_plugin(tmp_path: Path) -> None:
    rows = [
        (0, STEP, HOST, -1, 0, 0, 100),
        (1, LAUNCH, HOST, -1, 1, 10, 5),
        (2, KERNEL, DEVICE, -1, 1, 20, 1000),
        (0, STEP, HOST, -1, 0, 100, 100),  # over when the kernel of the first one still runs: of no length
        (0, STEP, HOST, -1, 0, 200, 100),
        (1, LAUNCH, HOST, -1, 2, 210, 5),
        (2, KERNEL, DEVICE, -1, 2, 1100, 500),
    ]
    found = seen(report_of(trace_of(rows, ["ProfilerStep#7", "commit", "gemm"])), tmp_path)
    assert [spent for _, spent in found.steps] == [pytest.approx(1.02, abs=0.002), pytest.approx(0.58, abs=0.002)]


def test_a_launch_without_a_kernel_takes_no_other_ones(tmp_path: Path) -> None:
    rows = [(0, OPERATOR, HOST, -1, 0, 0, 100), (1, LAUNCH, HOST, -1, 0, 10, 10), (2, KERNEL, DEVICE, -1, 0, 20, 500)]
    found = seen(report_of(trace_of(rows)), tmp_path)
    assert found.operators["a"]["device_total_duration"] == 0


def test_events_that_end_together_stay_in_one_another(tmp_path: Path) -> None:
    # In thousandths of a microsecond, 0.1 + 0.2 would end after 0.3 and fall out of it.
    rows = [(0, OPERATOR, HOST, -1, 0, start, 3_000 - start) for start in range(0, 3_000, 7)]
    found = seen(report_of(trace_of(rows), steps=[]), tmp_path)
    assert found.operators["a"]["calls"] == 1  # each is the only child of its like


def test_hostile_names_lose_no_run(tmp_path: Path) -> None:
    for number, text in enumerate(HOSTILE):
        folder = tmp_path / str(number)
        [path] = written(hostile_report(text), folder)
        assert path.parent.parent == folder and len(path.name) < 200
        found = views(path, folder)
        assert set(ALL) - {"Memory"} <= set(found.names)
        assert found.kernels and found.operators and found.modules


def test_figures_that_no_run_gives_are_written_all_the_same() -> None:
    for _, parts in TensorboardExporter().files(hostile_profile("x")):
        events = json.loads(gzip.decompress(b"".join(parts)))["traceEvents"]
        assert max(one.get("ts", 0) + one.get("dur", 0) for one in events) <= 2**50 / 1000  # 13 days, in microseconds


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(trace=traces())
def test_no_trace_loses_its_run(trace: Trace, tmp_path: Path) -> None:
    found = seen(report_of(trace), tmp_path)
    assert found.steps and found.costs["Total"] > 0


def test_kernels_of_a_host_and_steps_of_no_length_lose_nothing(tmp_path: Path) -> None:
    for kind, spent in (("host", 0), ("host", 1), ("device", 0)):
        rows = [(0, STEP, HOST, 0, 0, 0, 0)] * 7
        rows += [(0, OPERATOR, HOST, 0, 0, 0, spent), (0, LAUNCH, HOST, 0, 1, 0, 0), (0, KERNEL, HOST, 0, 1, 0, 0)]
        odd = trace_of(rows, ["aten::mm"], tracks=[Track(name="row", kind=kind, process=0, thread=0)])
        found = seen(report_of(odd), tmp_path / f"{kind} {spent}")
        assert found.steps and found.costs["Total"] > 0


def test_the_same_report_gives_the_same_bytes_and_overwrites_nothing(tmp_path: Path) -> None:
    registry = Registry(strict=True)
    first, second = (
        exporting.write(registry, "tensorboard", sample_profile_report(), str(tmp_path / "logs")) for _ in range(2)
    )
    assert (first, second) == (str(tmp_path / "logs" / "sample-training"), str(tmp_path / "logs" / "sample-training-2"))
    for path in Path(first).iterdir():
        assert path.read_bytes() == (Path(second or "") / path.name).read_bytes()


def test_nothing_measured_is_an_error_and_leaves_no_folder(tmp_path: Path) -> None:
    report = report_of(None, steps=[])
    with pytest.raises(ReportError, match="--probe operators"):
        exporting.write(Registry(strict=True), "tensorboard", report, str(tmp_path / "logs"))
    assert list(tmp_path.iterdir()) == []
