"""Reports changed on purpose are valid, and changed everywhere."""

from __future__ import annotations

import json
import math
from typing import Any, Self

import pytest
from pydantic import Field, model_validator

from mpsprobe.schemas import CoverageReport, ProfileReport
from mpsprobe.schemas.record import Record
from mpsprobe.schemas.report import KINDS, parse_report
from mpsprobe_devkit.testing import sample_coverage_report, sample_profile_report, sample_reports
from mpsprobe_devkit.testing.mutations import HOSTILE_TEXTS, emptied, with_number, with_text, with_unknown_keys


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("what", HOSTILE_TEXTS)
def test_a_hostile_text_stands_wherever_a_text_can(kind: str, what: str) -> None:
    report, text = sample_reports()[kind], HOSTILE_TEXTS[what]
    changed = with_text(report, text)
    assert changed != report and type(changed) is KINDS[kind]
    if isinstance(changed, CoverageReport) and isinstance(report, CoverageReport):
        assert {one.operator for one in changed.operators} == {text}
        assert [one.verdict for one in changed.operators] == [one.verdict for one in report.operators]
        assert changed.failure is not None and changed.failure.message == text
        assert text in changed.operators[0].phases and changed.workload.phase == "training"


def test_keys_that_would_be_equal_are_numbered() -> None:
    changed = with_text(sample_coverage_report(), "x")
    assert list(changed.operators[1].phases) == ["x", "x2"]  # type: ignore[union-attr]


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_left_in_an_empty_report(kind: str) -> None:
    report = emptied(sample_reports()[kind])
    assert report.kind == kind and parse_report(report.model_dump_json()) == report
    text = report.model_dump_json()
    assert "aten::" not in text and "sample" not in text


def test_what_has_to_be_there_stays() -> None:
    report = emptied(sample_profile_report())
    assert isinstance(report, ProfileReport)
    assert len(report.workloads) == 1 and report.plan.steps == 1 and not report.cells


@pytest.mark.parametrize("number", [0, 2**53])
@pytest.mark.parametrize("kind", KINDS)
def test_numbers_are_everywhere_where_they_are_allowed(kind: str, number: int) -> None:
    changed = with_number(sample_reports()[kind], number)
    assert changed != sample_reports()[kind]
    if isinstance(changed, CoverageReport):
        assert changed.summary.calls == number and changed.operators[0].calls == (number or 73)
        assert changed.schema_version == 1
    if isinstance(changed, ProfileReport):
        assert changed.cells[0].step is not None and changed.cells[0].step.median_ns == number
        assert changed.cells[0].trace is not None and changed.cells[0].trace.names, "its columns still agree"


@pytest.mark.parametrize("kind", KINDS)
def test_unknown_keys_are_in_every_record(kind: str) -> None:
    report = sample_reports()[kind]
    changed = with_unknown_keys(report)
    [number] = [one for one in changed.from_a_newer_version["numbers"] if isinstance(one, float) and math.isnan(one)]
    assert number != number
    document = json.loads(changed.model_dump_json())
    assert all("from_a_newer_version" in one for one in document.values() if isinstance(one, dict) and "name" in one)


class Pattern(Record):
    """A report of a stranger's, that takes no text in one place and no number in another."""

    kind: str
    schema_version: int
    name: str
    version: str = Field(pattern="[0-9]+")
    sizes: dict[str, int] = Field(default={}, max_length=1)


def test_what_a_schema_refuses_is_put_back() -> None:
    report: Any = Pattern(kind="pattern", schema_version=1, name="a", version="12", sizes={"b": 1})
    changed: Any = with_text(report, "<x>")
    assert (changed.name, changed.version, changed.sizes, changed.kind) == ("<x>", "12", {"<x>": 1}, "pattern")
    assert with_number(report, 5).model_dump() == {**report.model_dump(), "sizes": {"b": 5}}


def test_a_report_that_can_only_be_as_it_is_stays() -> None:
    class Stubborn(Pattern):
        @model_validator(mode="after")
        def _same(self) -> Self:
            if self.name != "a":
                raise ValueError("it is called a")
            return self

    report: Any = Stubborn(kind="pattern", schema_version=1, name="a", version="12")
    assert with_text(report, "<x>") == report
