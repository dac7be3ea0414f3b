"""Reports: written, read back, and refused when they are not what they say; events in columns."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from mpsprobe.errors import ReportError
from mpsprobe.plugins.registry import Registry, use_registry
from mpsprobe.schemas import BackendTarget, CoverageReport, Report, Target, UnknownReport, read_report
from mpsprobe.schemas.record import Exportable
from mpsprobe.schemas.report import KINDS, parse_report
from mpsprobe.schemas.trace import Trace
from mpsprobe_devkit.testing import sample_coverage_report, sample_reports
from mpsprobe_devkit.testing.strategies import reports

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
    shown = known._repr_html_(), _as_text(known)
    use_registry(None)
    assert shown == (None, repr(known))


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
