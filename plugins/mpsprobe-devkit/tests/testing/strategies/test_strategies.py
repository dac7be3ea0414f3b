"""What the strategies make is valid, of every kind, and of schemas that they have never seen."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from mpsprobe.declarations import Declaration, ExporterDeclaration
from mpsprobe.plugins.catalogue import KINDS as DECLARED
from mpsprobe.plugins.catalogue import checked, is_name
from mpsprobe.protocols import RunOptions
from mpsprobe.schemas import Report, Trace, UnknownReport
from mpsprobe.schemas.report import KINDS, parse_report
from mpsprobe_devkit.testing.strategies import (
    checkpoint_reports,
    comparison_reports,
    coverage_reports,
    declarations,
    exporter_declarations,
    fit_reports,
    hostile_texts,
    matrix_reports,
    operator_names,
    plugin_names,
    profile_reports,
    ranking_reports,
    records,
    releases,
    reports,
    reports_of,
    run_options,
    several_reports,
    texts,
    traces,
    unknown_reports,
    upgrade_reports,
    workload_declarations,
)

QUICKLY = settings(phases=[Phase.generate], max_examples=1000, database=None)  # the first that fits, not the smallest
MAKERS = {
    "coverage": coverage_reports,
    "coverage-matrix": matrix_reports,
    "coverage-several": several_reports,
    "profile": profile_reports,
    "comparison": comparison_reports,
    "checkpoint": checkpoint_reports,
    "fit": fit_reports,
    "upgrade": upgrade_reports,
    "ranking": ranking_reports,
}


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=20)
@given(data=st.data())
def test_every_kind_has_its_strategy_and_reads_back(kind: str, data: st.DataObject) -> None:
    report = data.draw(MAKERS[kind]())
    assert report.kind == kind
    assert parse_report(report.model_dump_json()) == report
    assert data.draw(reports_of(kind)).kind == kind


@settings(max_examples=20)
@given(reports())
def test_any_report_is_one_that_is_known(report: Report) -> None:
    assert type(report) is KINDS[report.kind]


@given(unknown_reports())
def test_reports_that_no_schema_describes(report: UnknownReport) -> None:
    assert report.schema_version > 1 and isinstance(report, UnknownReport)


def test_a_kind_that_is_not_known_is_no_strategy() -> None:
    with pytest.raises(KeyError):
        reports_of("weather")


@given(traces())
def test_events_are_in_order(trace: Trace) -> None:
    assert trace.start_ns == sorted(trace.start_ns)


def test_traces_have_events_with_flows_and_counters() -> None:
    assert find(traces(), lambda trace: bool(trace.name and any(trace.flow) and trace.counters), settings=QUICKLY)


@given(declarations())
def test_declarations_are_what_hooks_may_return(declaration: Declaration) -> None:
    [hook] = [hook for hook, kind in DECLARED.values() if kind is type(declaration)]
    assert checked([declaration], hook, type(declaration)) == [declaration]


def test_declarations_of_every_kind_are_made() -> None:
    for _, kind in DECLARED.values():
        assert isinstance(find(declarations(), lambda one, kind=kind: isinstance(one, kind), settings=QUICKLY), kind)


@given(exporter_declarations(), workload_declarations())
def test_an_exporter_has_an_extension_or_a_folder(exporter: ExporterDeclaration, workload: Any) -> None:
    assert bool(exporter.extension) != exporter.folder
    assert workload.phases


@given(plugin_names(), operator_names(), releases(), texts())
def test_names(name: str, operator: str, release: str, text: str) -> None:
    assert is_name(name)
    assert "::" in operator and release.count(".") == 2
    assert text.encode().decode() == text


def test_texts_can_be_hostile() -> None:
    assert find(hostile_texts(), lambda text: "\x1b" in text, settings=QUICKLY)
    assert find(hostile_texts(), lambda text: len(text) >= 5000, settings=QUICKLY)


@given(run_options(("training",)))
def test_options_are_those_of_a_command_line(options: RunOptions) -> None:
    assert options.phase == "training" and options.grad_accum >= 1
    assert not options.weights and not options.trust_remote_code


class Weather(BaseModel):
    """A schema of a stranger's."""

    kind: Literal["weather"] = "weather"
    degrees: list[float] = Field(min_length=1)
    wind: dict[str, int | None] = {}
    sunny: bool


@given(records(Weather))
def test_a_schema_of_ones_own_has_its_strategy(weather: Weather) -> None:
    assert weather.degrees and Weather.model_validate(weather.model_dump()) == weather


def test_what_cannot_be_made_up_is_told() -> None:
    class Odd(BaseModel):
        when: bytes

    with pytest.raises(TypeError, match="bytes"):
        records(Odd).example()
