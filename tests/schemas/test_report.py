"""Reports: written, read back, refused when they are wrong; several as one; events in columns; without pydantic."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, get_args, get_origin

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from mpsprobe.assembling import merged, worst_first
from mpsprobe.errors import ReportError
from mpsprobe.folding import folded, united
from mpsprobe.plugins.registry import Registry, use_registry
from mpsprobe.schemas import (
    BackendTarget,
    CoverageReport,
    OperatorFinding,
    Report,
    Target,
    Transfers,
    Unjudged,
    UnknownReport,
    read_report,
)
from mpsprobe.schemas.record import Exportable, Record
from mpsprobe.schemas.report import KINDS, parse_report
from mpsprobe.schemas.trace import Trace
from mpsprobe.views import view
from mpsprobe_devkit.testing import sample_coverage_report, sample_reports
from mpsprobe_devkit.testing.strategies import reports
from tests.fuzz.changing import document_changed

text = st.text(alphabet=st.characters(exclude_categories=["Cs"]))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


@given(reports())
def test_a_report_survives_its_way_through_json(report: Report) -> None:
    assert parse_report(report.model_dump_json()) == report
    assert parse_report(json.dumps(report.model_dump(mode="json"))) == report


def test_the_name_of_a_file_that_is_no_unicode_survives_it() -> None:
    sample = sample_coverage_report()
    report = sample.model_copy(update={"workload": sample.workload.model_copy(update={"name": "\udcff.py"})})
    text = report.model_dump_json(indent=1)
    assert CoverageReport.model_validate_json(text) == parse_report(text) == report
    with pytest.raises(ValidationError, match="Invalid JSON"):
        CoverageReport.model_validate_json("{")


def test_the_home_folder_is_in_no_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    monkeypatch.setenv("USERPROFILE", "/home/ada")
    for name, shown in [
        ("/home/ada/net.py:make", "~/net.py:make"),
        ("/home/ada", "~"),
        ("No such file: '/home/ada/x', nor /home/ada/y", "No such file: '~/x', nor ~/y"),
        ("/home/adam/net.py:make", "/home/adam/net.py:make"),
        ("/mnt/home/ada/net.py", "/mnt/home/ada/net.py"),
        ("bert-base", "bert-base"),
    ]:
        data = sample_coverage_report().model_dump(mode="json")
        data["workload"]["name"] = name
        assert CoverageReport.model_validate(data).workload.name == shown


@given(st.dictionaries(st.from_regex(r"x_[a-z]{1,8}", fullmatch=True), JSON, max_size=3))
def test_keys_of_a_newer_version_are_kept(extra: dict[str, Any]) -> None:
    data = {**sample_coverage_report().model_dump(mode="json"), **extra}
    data["operators"][0].update(extra)
    assert parse_report(json.dumps(data)).model_dump(mode="json") == data


@given(st.from_regex("[abc-]{1,8}", fullmatch=True), st.integers(0, 99), st.dictionaries(st.sampled_from("pqr"), JSON))
def test_a_report_of_an_unknown_kind_is_kept_verbatim(kind: str, version: int, sections: dict[str, Any]) -> None:
    data = {"kind": kind, "schema_version": version, **sections}
    report = parse_report(json.dumps(data))
    assert isinstance(report, UnknownReport) and report.model_dump(mode="json") == data
    later = {**sample_coverage_report().model_dump(mode="json"), "schema_version": 2, "operators": sections}
    assert isinstance(parse_report(json.dumps(later)), UnknownReport)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_report_or_a_clear_error(noise: bytes) -> None:
    with pytest.raises(ReportError) as caught:
        parse_report(noise, "noise")
    assert caught.value.message.startswith("noise is not") and caught.value.message.isprintable()


def test_what_is_no_report_is_refused_in_words() -> None:
    for text, problem in (
        ("", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("9" * 5000, "too large"),
        ('{"kind": "weather", "schema_version": 1, "wind": [-9223372036854775808]}', "too large"),
        ("[]", "is not a report"),
        ('{"kind": 3}', "is not a report"),
        ('{"kind": "weather"}', "is damaged at 'schema_version'"),
        ('{"kind": "coverage", "schema_version": 1}', "is damaged at 'method'"),
    ):
        with pytest.raises(ReportError, match=problem):
            parse_report(text)


def test_a_damaged_report_says_where() -> None:
    for place, value in (
        (("summary", "calls"), -1),
        (("summary", "calls_by_verdict"), {"fine": 1}),
        (("operators", 0, "calls"), 0),
        (("operators", 0, "verdict"), "good"),
        (("workload", "phase"), "sleeping"),
        (("target", "backend"), 5),
        (("environment", "python"), None),
    ):
        data = inner = sample_coverage_report().model_dump(mode="json")
        for step in place[:-1]:
            inner = inner[step]
        inner[place[-1]] = value
        with pytest.raises(ReportError) as caught:
            parse_report(json.dumps(data))
        assert ".".join(map(str, place)) in caught.value.message


def test_reading_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "report.json"
    path.write_text(sample_coverage_report().model_dump_json(), encoding="utf-8")
    assert read_report(path) == sample_coverage_report()
    for wrong in (tmp_path, tmp_path / "none"):
        with pytest.raises(ReportError, match="cannot read"):
            read_report(wrong)
    monkeypatch.setattr(Path, "is_char_device", lambda _: True)  # as /dev/zero, it may never end
    with pytest.raises(ReportError, match="is a device, not a file"):
        read_report(tmp_path)


def test_samples_cover_every_field() -> None:
    samples = sample_reports()
    assert set(samples) == {*KINDS, "weather"}
    for model in KINDS.values():
        sample = samples[model.model_fields["kind"].default]
        assert set(model.model_fields) == set(sample.model_fields_set) | {"kind", "schema_version"}


XPU = {"backend": "xpu", "label": "XPU", "torch": "2.13.0", "source": "a yaml (mpsprobe-xpu 0.1)"}


def test_an_error_names_the_field_of_a_target() -> None:
    for target, field in (
        ({key: value for key, value in XPU.items() if key != "source"}, "target.source"),
        ({**XPU, "label": 1}, "target.label"),
        ({**XPU, "backend": 1}, "target.backend"),
        ({**XPU, "backend": "mps", "torch": None}, "target.torch"),
        ({"backend": None, "torch": "2.13.0"}, "target.backend"),
        ({}, "target.torch"),
        ("xpu", "target"),
        (["xpu"], "target"),
        (None, "target"),
    ):
        for kind in ("coverage", "coverage-matrix"):
            data = sample_reports()[kind].model_dump(mode="json")
            cell = data if kind == "coverage" else data["releases"][1]
            cell["target"] = target
            with pytest.raises(ReportError) as caught:
                parse_report(json.dumps(data))
            where = field if kind == "coverage" else f"releases.1.{field}"
            assert f"damaged at '{where}'" in caught.value.message


def test_the_backend_says_which_target_it_is() -> None:
    data = sample_coverage_report().model_dump(mode="json")
    of_before = {key: value for key, value in data["target"].items() if key != "backend"}  # without a word of backends
    for target, expected in ((XPU, BackendTarget), (of_before, Target), (data["target"], Target)):
        report = parse_report(json.dumps({**data, "target": target}))
        assert isinstance(report, CoverageReport) and type(report.target) is expected
    with pytest.raises(ValidationError, match="backend"):
        Target(backend="xpu", torch="2.13.0")


def _as_text(report: Exportable) -> str:
    said: list[str] = []
    report._repr_pretty_(SimpleNamespace(text=said.append), False)
    return "".join(said)


@pytest.mark.parametrize("kind", KINDS)
def test_a_notebook_shows_html_and_ipython_text(kind: str) -> None:
    report = sample_reports()[kind]
    shown = report._repr_html_()
    assert shown is not None and shown.startswith("<div") and "<script" not in shown
    assert _as_text(report) not in ("", repr(report))


def test_what_no_exporter_reads_is_shown_as_python_does() -> None:
    newer = parse_report('{"kind": "coverage", "schema_version": 2}')
    for report in (newer, sample_reports()["weather"]):
        assert report._repr_html_() is None and _as_text(report) == repr(report)
    use_registry(Registry(blocked=["exporters"]))
    known = sample_coverage_report()
    shown, expected = (known._repr_html_(), _as_text(known)), repr(known)
    use_registry(None)
    assert shown == (None, expected) == (None, "<CoverageReport>")


GOOD: dict[str, Any] = {
    "names": ["step 0", "aten::mm"],
    "categories": ["step", "operator"],
    "tracks": [{"name": "main thread", "kind": "host"}],
    "details": [{"shapes": "2x3, 3x4"}],
    "name": [0, 1],
    "category": [0, 1],
    "track": [0, 0],
    "detail": [-1, 0],
    "flow": [0, 0],
    "start_ns": [0, 100],
    "duration_ns": [1000, 50],
    "counters": [{"name": "allocated_bytes", "times_ns": [0, 10], "values": [1.0, 2.0]}],
}


def test_a_broken_trace_is_refused() -> None:
    for broken, says in (
        ({"name": [0]}, "different lengths"),
        ({"name": [0, 2]}, "outside its table"),
        ({"name": [0, -1]}, "outside its table"),
        ({"detail": [-2, 0]}, "outside its table"),
        ({"track": [0, 1]}, "outside its table"),
        ({"duration_ns": [10, -1]}, "ends before it starts"),
        ({"counters": [{"name": "power", "times_ns": [0], "values": []}]}, "different numbers"),
        ({"categories": ["step", "nonsense"]}, "categories"),
    ):
        with pytest.raises(ValidationError, match=says):
            Trace.model_validate({**GOOD, **broken})


def test_a_long_trace_is_checked_quickly() -> None:
    count = 200_000
    columns: dict[str, Any] = {name: [0] * count for name in ("name", "category", "track", "detail", "flow")}
    times = {"start_ns": list(range(count)), "duration_ns": [1] * count}
    assert len(Trace.model_validate({**GOOD, **columns, **times}).start_ns) == count
    trace = Trace.model_validate(GOOD)
    assert Trace.model_validate_json(trace.model_dump_json()) == trace


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
