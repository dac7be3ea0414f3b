"""The short answer, sentence by sentence, and what is said about another backend than MPS."""

from __future__ import annotations

from typing import Any

import pytest
from example_reports import HOSTILE, NATIVE, SAMPLE, coverage, finding, matrix, mixed, summary

from mpsprobe.schemas import BackendTarget, CoverageReport, MatrixReport, Target
from mpsprobe_devkit.testing import sample_coverage_report, sample_matrix_report
from mpsprobe_exporters import answer, backends, workload_lines
from mpsprobe_exporters.formats.junit import JunitExporter
from mpsprobe_exporters.formats.prometheus import PrometheusExporter

XPU = BackendTarget(
    backend="xpu", label="XPU", torch="2.13.0", source="a yaml (mpsprobe-xpu 0.1)", notes=["Not all is known"]
)


def short_answer(report: Any) -> str:
    return "; ".join(f"{text[:1].lower()}{text[1:]}" for text in answer.short_answer(report))


def report(torch: str, *verdicts: tuple[str, str | None]) -> Any:
    """A report on ``torch`` of one native operator and one for each (verdict, native_since)."""
    operators = [
        finding(f"aten::op{index}", verdict, native_since=since) for index, (verdict, since) in enumerate(verdicts)
    ]
    return coverage(torch, [*operators, finding("aten::add.Tensor")])


def test_the_short_answer_says_what_ends_the_process() -> None:
    def made(count: int) -> Any:
        operators = [finding(f"aten::op{index}", "unsupported", ends_process=True) for index in range(count)]
        return coverage("2.12.0", [*operators, finding("aten::add.Tensor")])

    assert short_answer(made(1)).endswith("; a call of aten::op0 ends the process, which no try catches")
    assert short_answer(made(2)).endswith("; calls of 2 operators end the process, which no try catches")


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (
            report("2.6.0", ("fallback", "2.9.0"), ("fallback", "2.9.0")),
            "2 of 3 operators fall back to the CPU on torch 2.6.0; both are native from 2.9.0 on",
        ),
        (
            report("2.6.0", ("fallback", "2.10.0")),
            "1 of 2 operators falls back to the CPU on torch 2.6.0; it is native from 2.10.0 on",
        ),
        (
            report("1.12.1", ("missing", "2.0.0"), ("missing", "2.0.0"), ("missing", None)),
            "3 of 4 operators have no MPS kernel on torch 1.12.1; "
            "2 of 3 are native from 2.0.0 on, the others in no release yet",
        ),
        (
            report("2.15.0", ("missing", None)),
            "1 of 2 operators has no MPS kernel on torch 2.15.0; no release is known to change that",
        ),
        (report("2.15.0", ("unknown", None)), "1 of 2 operators is unknown on torch 2.15.0"),
        (
            report("2.9.0", ("unsupported", "2.0.0"), ("missing", "2.10.0"), ("fallback", "2.10.0"), ("unknown", None)),
            "4 of 5 operators are not native on torch 2.9.0; 1 is not supported on MPS, 1 has no MPS kernel, "
            "1 falls back to the CPU and 1 is unknown; 2 of 3 are native from 2.10.0 on, the others in no release yet",
        ),
    ],
)
def test_short_answer(made: Any, said: str) -> None:
    assert short_answer(made) == said


def test_errors_of_the_program_are_counted_apart_from_gaps_of_pytorch() -> None:
    left = finding("aten::mm", "unsupported", source="device", call_sites=["a/model.py:3", "a/model.py:9"])
    wide = finding("aten::mul", "unsupported", source="dtype", dtypes=["float64"], native_since=None)
    assert short_answer(coverage("2.15.0", [left])) == (
        "2 errors in the program: a tensor on the CPU at model.py:3 and model.py:9"
    )
    made = {"dtype": "float64", "operator": "aten::mul", "phase": "forward", "call_site": "a/model.py:5"}
    operators = [left, wide, finding("aten::a", "missing"), *NATIVE]
    assert short_answer(coverage("2.15.0", operators, first_refused_tensor=made)) == (
        "3 errors in the program: float64 at model.py:5 and a tensor on the CPU at model.py:3 and model.py:9; "
        "1 of 8 operators has no MPS kernel on torch 2.15.0; no release is known to change that"
    )
    moved = {**made, "phase": "move", "call_site": None, "module": "head"}
    said = short_answer(coverage("2.15.0", [wide], first_refused_tensor=moved))
    assert said == "1 error in the program: float64 in the parameters of 'head'"
    later = finding("aten::mul", "unsupported", source="dtype", dtypes=["bfloat16"], native_since="2.15.0")
    assert "in the program" not in short_answer(coverage("2.6.0", [later]))


def test_a_program_that_looks_only_for_cuda_would_run_on_the_cpu() -> None:
    whole = SAMPLE["program"] | {"exit_code": 0}
    said = short_answer(coverage("2.15.0", [], program=whole))
    line = whole["cuda"][0]["call_sites"][0].rpartition("/")[2]
    assert said == f"the program would run on the CPU of a Mac: {line} looks only for CUDA"
    for other in ({"exit_code": 1}, {"cuda": []}):
        assert "no operator was judged" in short_answer(coverage("2.15.0", [], program={**whole, **other}))


def test_a_program_that_computes_on_the_cpu_needs_doing() -> None:
    whole = SAMPLE["program"]
    ran = {**whole, "stayed_on_cpu": [], "computed_on_cpu": [], "cuda": [], "notes": [], "processes": 1}
    assert short_answer(coverage("2.15.0", NATIVE, program=ran)).endswith(answer.NOT_MEASURED)
    for left in ("stayed_on_cpu", "cuda"):
        assert answer.NOT_MEASURED not in short_answer(coverage("2.15.0", NATIVE, program={**ran, left: whole[left]}))


def test_an_operator_with_two_findings_is_cured_by_the_later_release() -> None:
    twice = [
        finding("aten::a", "missing", native_since="2.10.0"),
        finding("aten::a", "unsupported", native_since="2.9.0"),
    ]
    assert "it is native from 2.10.0 on" in short_answer(coverage("2.6.0", twice))
    never = [twice[0], finding("aten::a", "unsupported", dtypes=["float64"], native_since="2.9.0")]
    assert "no release" in short_answer(coverage("2.6.0", never))


def test_what_was_not_judged_or_rests_on_a_registration_is_said() -> None:
    said = short_answer(mixed())
    assert said.startswith("5 of 10 judged operators") and said.endswith("1 more could not be judged")
    counted = {**summary(NATIVE, None), "calls_registered_only": 1}
    said = short_answer(coverage("2.15.0", NATIVE, summary=counted))
    takes = "5 of 5 operators have a kernel that takes these calls on torch 2.15.0"
    assert said == f"{takes}; {answer.NOT_MEASURED}; 1 native call with dtypes that no test covers"


def test_known_wrong_results_are_counted_beside_those_that_were_compared() -> None:
    def said(matches: int, compared: int | None) -> str:
        counts = {**summary(NATIVE, None), "advisories": matches, "advisories_compared": compared}
        known = sample_coverage_report().advisories * matches
        return short_answer(coverage("2.15.0", NATIVE, summary=counts, advisories=known[:matches]))

    takes = "5 of 5 operators have a kernel that takes these calls on torch 2.15.0"
    assert said(0, None) == said(0, 0) == f"{takes}; {answer.NOT_MEASURED}"
    assert said(0, 212) == f"{takes}; none of 212 known wrong results applies; {answer.NOT_MEASURED}"
    assert said(1, 212) == f"{takes}; 1 of 212 known wrong results applies; {answer.NOT_MEASURED}"
    assert said(1, None) == f"{takes}; 1 known wrong result; {answer.NOT_MEASURED}"


def test_releases_are_compared_as_numbers() -> None:
    assert answer.is_later("2.10.0", "2.9.1") and not answer.is_later("2.9.0", "2.10.0")
    assert not answer.is_later("2.9.0+cpu", "2.9.0") and not answer.is_later(None, "1.0")


def test_matrix_answers() -> None:
    made = matrix()
    assert short_answer(made).startswith("every operator native from 2.15.0 on; 8 of 8 operators native on the")
    assert "the run stopped on 1 of 11 releases" in short_answer(made)
    never = made.model_copy(update={"native_since": None, "releases": made.releases[:3]})
    assert short_answer(never).startswith("no release has every operator native yet; 3 of 8 operators")
    assert backends.release(backends.target(never)) == "2.0.0"
    always = made.model_copy(update={"native_since": "1.12.1"})
    assert short_answer(always).startswith("every operator native in every release, 1.12.1 on; ")
    empty = MatrixReport.model_validate({**made.model_dump(), "releases": []})
    assert short_answer(empty) == "no release was judged"


def on_xpu(target: Target = XPU, **changes: Any) -> CoverageReport:
    """The sample, as if it had been judged there."""
    return sample_coverage_report().model_copy(update={"target": target, **changes})


def test_another_backend_is_named() -> None:
    report = on_xpu()
    assert "on XPU with torch 2.13.0" in short_answer(report)
    assert workload_lines.method_lines(report)[0].startswith("Predicted for XPU: ")
    assert backends.notes(report.target) == ["Kernel table: a yaml (mpsprobe-xpu 0.1)", "Not all is known"]
    matrix = sample_matrix_report()
    cells = [cell.model_copy(update={"target": XPU}) for cell in matrix.releases]
    assert backends.label(backends.target(matrix.model_copy(update={"releases": cells}))) == "XPU"
    empty = matrix.model_copy(update={"releases": []})
    assert isinstance(empty, MatrixReport) and backends.label(backends.target(empty)) == "MPS"
    report = CoverageReport.model_validate_json(on_xpu().model_dump_json())
    assert report.target == XPU
    assert type(CoverageReport.model_validate_json(sample_coverage_report().model_dump_json()).target) is Target
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
