"""What reports on another backend than MPS are called, and what is said about them."""

from __future__ import annotations

from typing import Any

from hostile import HOSTILE

from mpsprobe.schemas import BackendTarget, CoverageReport, MatrixReport, Target
from mpsprobe_devkit.testing import sample_coverage_report, sample_matrix_report
from mpsprobe_exporters import answer, backends
from mpsprobe_exporters.junit import JunitExporter
from mpsprobe_exporters.prometheus import PrometheusExporter

XPU = BackendTarget(
    backend="xpu",
    label="XPU",
    torch="2.13.0",
    source="a yaml (mpsprobe-xpu 0.1)",
    variable="PYTORCH_ENABLE_XPU_FALLBACK=1",
    notes=["Not all is known"],
)


def short_answer(report: Any) -> str:
    return "; ".join(answer.short_answer(report))


def on_xpu(target: Target = XPU, **changes: Any) -> CoverageReport:
    """The sample, as if it had been judged there."""
    return sample_coverage_report().model_copy(update={"target": target, **changes})


def test_another_backend_is_named() -> None:
    report = on_xpu()
    assert "on XPU with torch 2.13.0" in short_answer(report)
    assert answer.method_line(report).startswith("Predicted for XPU: ")
    assert backends.notes(report)[-2:] == ["Kernel table: a yaml (mpsprobe-xpu 0.1)", "Not all is known"]


def test_of_a_matrix_the_newest_release_counts() -> None:
    matrix = sample_matrix_report()
    cells = [cell.model_copy(update={"target": XPU}) for cell in matrix.releases]
    assert backends.label(backends.target(matrix.model_copy(update={"releases": cells}))) == "XPU"
    empty = matrix.model_copy(update={"releases": []})
    assert isinstance(empty, MatrixReport) and backends.label(backends.target(empty)) == "MPS"


def test_a_report_survives_json() -> None:
    report = CoverageReport.model_validate_json(on_xpu().model_dump_json())
    assert report.target == XPU
    assert type(CoverageReport.model_validate_json(sample_coverage_report().model_dump_json()).target) is Target


def test_a_label_is_safe_to_print() -> None:
    for label in HOSTILE:
        said = backends.label(XPU.model_copy(update={"label": label}))
        assert len(said) <= 40 and said.isprintable()


def test_two_backends_are_told_apart() -> None:
    matrix = sample_matrix_report()
    cells = [cell.model_copy(update={"target": XPU}) for cell in matrix.releases]
    for exporter in (PrometheusExporter(), JunitExporter()):
        for report in (on_xpu(), matrix.model_copy(update={"releases": cells})):
            assert "XPU" in exporter.render(report)
        for report in (sample_coverage_report(), matrix):
            assert "backend" not in exporter.render(report)
