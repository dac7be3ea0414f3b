"""What the exporters of time lines write, ``import`` reads back."""

from __future__ import annotations

from pathlib import Path

import pytest

from mpsprobe import exporting
from mpsprobe.importing.report import import_trace
from mpsprobe.plugins.registry import Registry
from mpsprobe.schemas import ProfileCell, ProfileReport
from mpsprobe_devkit.testing import sample_profile_report
from tests.importing.trace_files import read, x


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
