"""A trace of a real GPU, and one that torch.profiler writes here, compared with ``key_averages`` of the same runs.

What the exporters of time lines write, ``import`` reads back.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import pytest
from trace_files import read, x

from mpsprobe import exporting
from mpsprobe.plugins.registry import Registry
from mpsprobe.schemas import ProfileCell, ProfileReport
from mpsprobe_devices.traces.report import import_trace
from mpsprobe_devkit.testing import sample_profile_report
from tests.forking import run_python

DATA = Path(__file__).parent / "data"


def test_a_trace_of_a_real_gpu() -> None:
    """Three training steps on an NVIDIA H200, torch 2.11.0, CUDA 13.0, written on 2026-11-21.

    Next to it is what ``key_averages`` said about the same run: calls, then µs on the host, own ones, on the device,
    own ones. Frames of Python's own functions were taken out of the file.
    """
    report = import_trace(DATA / "cuda.pt.trace.json.gz")
    [cell], [device] = report.cells, report.devices
    expected = {name: values for name, *values in json.loads((DATA / "cuda-key-averages.json").read_text())}
    assert {one.operator for one in cell.operators} == set(expected) and len(expected) == len(cell.operators) == 60
    for one in cell.operators:
        calls, *times = expected[one.operator]
        ours = (one.host_ns, one.self_host_ns, one.device_ns or 0, one.self_device_ns or 0)
        assert one.calls == calls and [ns / 1e3 for ns in ours] == pytest.approx(times, abs=0.01), one.operator
    assert (device.type, device.name, device.memory_bytes) == ("cuda", "NVIDIA H200", 150_109_880_320)
    assert (cell.device, cell.phase, cell.profiled_steps) == ("cuda", "training", 3)
    assert [(one.calls, one.device_ns) for one in cell.modules if one.module == "Linear_0"] == [(3, 23_264)]
    assert cell.memory is not None and cell.memory.peak_reserved_bytes == 71_303_168 and cell.trace is not None
    assert [track.kind for track in cell.trace.tracks].count("device") == 2  # the stream, and annotations of it


PROGRAM = """
import json, sys, torch
from torch.profiler import ProfilerActivity, profile, schedule
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.LayerNorm(16), torch.nn.Linear(16, 4))
optimizer = torch.optim.AdamW(model.parameters())
def step():
    optimizer.zero_grad()
    model(torch.randn(4, 8)).square().mean().backward()
    optimizer.step()
step()
more = {} if sys.argv[2] == "plain" else dict(record_shapes=True, profile_memory=True, with_stack=True)
every = schedule(wait=0, warmup=1, active=3, repeat=1)
with profile(activities=[ProfilerActivity.CPU], schedule=every, **more) as profiler:
    for _ in range(4):
        step()
        profiler.step()
profiler.export_chrome_trace(sys.argv[1])
rows = [[one.key, one.count, one.cpu_time_total, one.self_cpu_time_total] for one in profiler.key_averages()
        if not one.is_user_annotation and "(" not in one.key and not one.key.startswith(("<", "nn.Module"))]
json.dump(rows, sys.stdout)
"""


class Run(NamedTuple):
    """One run: the file of its trace, and what torch itself says about it by operator: calls, µs and own µs."""

    path: Path
    expected: dict[str, tuple[int, float, float]]


@pytest.fixture(scope="module", params=["plain", "full"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    path = tmp_path_factory.mktemp("traces") / f"{request.param}.pt.trace.json"
    done = run_python(PROGRAM, path, request.param)
    return Run(path, {name: (calls, total, own) for name, calls, total, own in done.json()})


def check(report: ProfileReport, run: Run) -> None:
    [cell] = report.cells
    found = {one.operator: (one.calls, one.host_ns / 1e3, one.self_host_ns / 1e3) for one in cell.operators}
    assert set(found) == set(run.expected) and len(found) > 40
    for name, expected in run.expected.items():
        assert found[name] == pytest.approx(expected, abs=0.01), name
    assert len(cell.steps) == cell.profiled_steps == 3 and cell.phase == "training"


def test_operators_calls_and_times_are_those_of_key_averages_whatever_the_limit(run: Run) -> None:
    check(import_trace(run.path), run)
    report = import_trace(run.path, limit=50)
    check(report, run)
    trace = report.cells[0].trace
    assert trace is not None and len(trace.start_ns) == 50


def test_modules_and_memory_are_there_when_torch_recorded_them(run: Run) -> None:
    [cell] = import_trace(run.path).cells
    if run.path.name.startswith("plain"):
        assert not cell.modules and cell.memory is None
        assert any("with_stack=True" in note for note in cell.notes)
        return
    types = {one.type: one.calls for one in cell.modules}
    assert types == {"Sequential": 3, "Linear": 3, "GELU": 3, "LayerNorm": 3}
    assert cell.memory is not None and cell.memory.peak_allocated_bytes is not None
    assert cell.memory.peak_allocated_bytes > 1000
    [linear] = [one for one in cell.operators if one.operator == "aten::linear"]
    assert linear.modules == ["Linear_0", "Linear_1"] and "[4, 8] [16, 8] [16]" in linear.shapes


def exported(report: ProfileReport, name: str, folder: Path) -> ProfileReport:
    """``report`` written and read; of a folder the first worker."""
    path = exporting.write(Registry(strict=True), name, report, str(folder / "out.trace.json"))
    assert path is not None
    return import_trace(Path(path) if name == "chrome" else sorted(Path(path).iterdir())[0])


def totals(cell: ProfileCell) -> tuple[object, object]:
    return (
        {one.operator: (one.calls, one.host_ns, one.device_ns or 0, one.self_device_ns or 0) for one in cell.operators},
        [(one.module, one.type, one.calls, one.host_ns) for one in cell.modules],
    )


@pytest.fixture(params=["chrome", "tensorboard"])
def again(request: pytest.FixtureRequest, tmp_path: Path) -> ProfileReport:
    return exported(sample_profile_report(), request.param, tmp_path)


def test_operators_modules_and_fallbacks_come_back(again: ProfileReport) -> None:
    before, after = sample_profile_report().cells[0], again.cells[0]
    assert totals(after) == totals(before)
    [fallback] = after.fallbacks
    assert (fallback.operator, fallback.calls, fallback.duration_ns) == ("aten::linalg_qr.out", 1, 150_000)
    assert (fallback.verdict, fallback.bytes) == ("missing", 1_572_864)


def test_every_event_comes_back_where_it_was(again: ProfileReport) -> None:
    def events(cell: ProfileCell) -> list[tuple[str, str, int, int, bool, int]]:
        trace = cell.trace
        assert trace is not None
        columns = (trace.name, trace.category, trace.track, trace.start_ns, trace.duration_ns, trace.flow)
        # A module's name may have been made longer, its path and type are in the totals above.
        return sorted(
            (
                "module" if trace.categories[category] == "module" else trace.names[name],
                "any" if trace.categories[category] in ("phase", "other") else trace.categories[category],
                start,
                spent,
                trace.tracks[track].kind == "device",
                flow if trace.categories[category] in ("launch", "kernel") else 0,
            )
            for name, category, track, start, spent, flow in zip(*columns, strict=True)
        )

    assert events(again.cells[0]) == events(sample_profile_report().cells[0])


def test_what_was_run_comes_back(tmp_path: Path) -> None:
    before, after = sample_profile_report(), exported(sample_profile_report(), "chrome", tmp_path)
    assert [(one.device, one.batch_size, one.seq_len, one.dtype) for one in after.cells] == [
        ("mps", 2, 128, "float32"),
        ("cpu", 2, 128, "float32"),
    ]
    assert [(one.type, one.name) for one in after.devices] == [("mps", "Apple M3 Max"), ("cpu", "Apple M3 Max")]
    assert after.workloads[0].name == before.workloads[0].name and after.notes == before.notes
    for place, other in enumerate(after.cells):
        steps, again = before.cells[2 * place].steps, other.steps
        assert sorted(map(repr, again)) == sorted(map(repr, steps))


def test_an_imported_trace_can_be_written_by_every_exporter(tmp_path: Path) -> None:
    step = x("ProfilerStep#1", "user_annotation", 0, 100)
    report = read(tmp_path, step, x("aten::mm", "cpu_op", 10, 20, Input_Dims=[[2, 3]]))
    registry = Registry(strict=True)
    for name, declaration in registry.exporters().items():
        if "profile" in declaration.kinds:
            assert exporting.write(registry, name, report, str(tmp_path / f"out-{name}"))
