"""Reports of several processes as one, by what each field says about itself; reports that are read without pydantic."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from random import Random
from typing import Any, get_args, get_origin

import pytest
from pydantic import ValidationError

from mpsprobe.assembling import merged, worst_first
from mpsprobe.folding import folded, united
from mpsprobe.schemas import CoverageReport, OperatorFinding, Transfers, Unjudged
from mpsprobe.schemas.record import Record
from mpsprobe.schemas.report import KINDS
from mpsprobe.views import view
from mpsprobe_devkit.testing import sample_coverage_report, sample_reports
from tests.fuzz.changing import document_changed


def _inside(annotation: Any) -> Iterator[Any]:
    yield annotation
    for one in get_args(annotation):
        yield from _inside(one)


def _folded_models(model: type[Record]) -> Iterator[type[Record]]:
    yield model
    for name, field in model.model_fields.items():
        if model.folds.get(name) in ("sum", "unite"):
            for one in _inside(field.annotation):
                if isinstance(one, type) and issubclass(one, Record):
                    yield from _folded_models(one)


def test_every_number_and_collection_says_what_becomes_of_it() -> None:
    silent = [
        f"{model.__name__}.{name}"
        for model in {*_folded_models(CoverageReport)}
        for name, field in model.model_fields.items()
        if name not in ("schema_version", *model.folds)
        and any((get_origin(one) or one) in (int, float, list, dict) for one in _inside(field.annotation))
    ]
    assert not silent, f"Sum, Unite or First: {silent}"


def _finding(**others: Any) -> OperatorFinding:
    known: dict[str, Any] = {"operator": "aten::x", "verdict": "missing", "calls": 1, "phases": {}, "dtypes": []}
    return OperatorFinding(**{**known, **others})


def test_each_word() -> None:
    whole = folded(
        [
            _finding(phases={"forward": 1}, examples=["a", "b"], transfers=Transfers(to_cpu=1), judges=["first"]),
            _finding(
                phases={"forward": 1, "backward": 2}, graphs=3, examples=["b", "c"], transfers=Transfers(to_cpu=2)
            ),
            _finding(calls=5, graphs=4, advice="upgrade", judges=["second"]),
        ]
    )
    assert (whole.calls, whole.phases, whole.graphs) == (7, {"forward": 2, "backward": 2}, 7)
    assert whole.examples == ["a", "b", "c"] and whole.transfers == Transfers(to_cpu=3)
    assert (whole.judges, whole.advice) == (["first"], "upgrade")


def test_records_are_told_apart_by_what_has_no_word() -> None:
    notes = [
        Unjudged(operator="x", reason=reason, call_sites=[line])
        for reason, line in (("a", "1"), ("b", "2"), ("a", "3"))
    ]
    assert [(one.reason, one.calls, one.call_sites) for one in united(notes)] == [("a", 2, ["1", "3"]), ("b", 1, ["2"])]


def test_processes_as_one_report() -> None:
    report = sample_coverage_report()
    parent = report.model_copy(update={"failure": None})
    whole = merged([parent, report])
    assert merged([report]) is report
    assert whole.failure == report.failure and whole.environment == report.environment
    assert whole.summary.calls == 2 * report.summary.calls and whole.summary.operators == report.summary.operators
    for one, twice in zip(worst_first(report.operators), whole.operators, strict=True):
        for name in OperatorFinding.model_fields:
            once, added = getattr(one, name), getattr(twice, name)
            if OperatorFinding.folds.get(name) != "sum" or not once:
                assert added == once, name
            elif isinstance(once, int):
                assert added == 2 * once, name
            elif isinstance(once, dict):
                assert added == {key: 2 * count for key, count in once.items()}, name
    assert [one.calls for one in whole.advisories] == [2 * one.calls for one in report.advisories]


SAMPLES = {kind: json.loads(sample_reports()[kind].model_dump_json()) for kind in ("coverage", "coverage-matrix")}


def as_read(document: dict[str, Any]) -> Any:
    try:
        return KINDS[document["kind"]].model_validate(document)
    except (ValidationError, KeyError, TypeError):
        return None


@pytest.mark.parametrize("kind", SAMPLES)
def test_it_has_every_field_with_its_default(kind: str) -> None:
    document = copy.deepcopy(SAMPLES[kind])
    del document["recalled"], document["operators"][0]["examples"]
    seen, read = view(document), as_read(document)
    assert json.dumps(seen, default=vars) == json.dumps(read.model_dump(mode="python"))
    target = seen.target if kind == "coverage" else seen.releases[-1].target
    assert (target.software, target.version) == ("torch", target.torch)
    one = seen.operators[0]
    changed = one.model_copy(update={"calls": 7})
    assert (changed.calls, changed.operator) == (7, one.operator) and one.calls != changed.calls


def test_what_pydantic_refuses_or_changes_is_left_to_it() -> None:
    for place, value in (
        (("workload", "parameters"), "1"), (("workload", "parameters"), True), (("workload", "parameters"), -1),
        (("workload", "phase"), "\x1b[2J"), (("workload", "name"), "\ud800"), (("workload", "name"), ["a"]),
        (("summary", "operators_by_verdict"), {"fine": 1}), (("summary", "calls_by_verdict"), "native"),
        (("target", "backend"), "xpu"), (("target", "version"), "9.9"), (("operators",), "none"), (("operators",), {}),
        (("schema_version",), 2), (("schema_version",), True), (("kind",), "Target"), (("kind",), None),
        (("a_key_of_tomorrow",), 1),
    ):  # fmt: skip
        document = part = copy.deepcopy(SAMPLES["coverage"])
        for key in place[:-1]:
            part = part[key]
        part[place[-1]] = value
        assert view(document) is None


def test_what_gets_through_is_what_pydantic_makes_of_it() -> None:
    random, through = Random(3), 0
    for _ in range(600):
        document = document_changed(random.choice([*SAMPLES.values()]), random)
        seen = view(document)
        if seen is not None:
            through += 1
            assert json.dumps(seen, default=vars) == json.dumps(as_read(document).model_dump(mode="python"))
    assert through
