"""Each clause of the contract for exporters can be broken, and a sound exporter breaks none."""

from __future__ import annotations

import gzip
import json
import os
import sys
from typing import Any

import pytest

from mpsprobe.declarations import ExporterDeclaration
from mpsprobe.errors import ReportError
from mpsprobe.schemas import CoverageReport, MatrixReport, Report, UnknownReport
from mpsprobe_devkit.testing import Broken, broken_clauses
from mpsprobe_devkit.testing.contracts.exporter import (
    ExporterContract,
    first_difference,
    want_no_control_characters,
    want_well_formed,
)
from mpsprobe_devkit.testing.mutations import MARKED_ELEMENT


class Sound:
    """One line of JSON: what was run, and what is not native."""

    def render(self, report: Report) -> Any:
        if not isinstance(report, (CoverageReport, MatrixReport)):
            raise ReportError("it reads coverage")
        return json.dumps(self.facts(report)) + "\n"

    def facts(self, report: Any) -> Any:
        return {"name": report.workload.name, "operators": [one.operator for one in report.operators]}


class SoundFolder:
    """Two files."""

    def files(self, report: Report) -> Any:
        if not isinstance(report, CoverageReport):
            raise ReportError("it reads coverage")
        yield "run/name.json", [json.dumps(report.workload.name), "\n"]
        yield "run/operators.txt", [f"{len(report.operators)}\n".encode()]


def broken(exporter: type, **more: Any) -> dict[str, str]:
    """The clauses that it breaks, with what is said."""
    options: dict[str, Any] = {"extension": ".json", "kinds": ("coverage", "coverage-matrix"), **more}
    declaration = ExporterDeclaration("badge", "badge:Badge", "under test", **options)
    return {
        one.clause: one.problem for one in ExporterContract.of(declaration, None, made=exporter, reports=()).broken()
    }


def changed(**methods: Any) -> type:
    """A sound exporter, but for these methods."""
    return type("Changed", (Sound,), methods)


def text(change: Any) -> type:
    """A sound exporter, but for what it makes of its text."""
    return changed(render=lambda self, report: change(Sound.render(self, report), report))


def shown(report: Any, around: str = "{}\n") -> str:
    """The name of what was run, without control characters."""
    return around.format("".join(c if c.isprintable() else "?" for c in report.workload.name))


def test_a_sound_one_breaks_nothing() -> None:
    assert broken(Sound) == {}
    assert broken(SoundFolder, extension="", folder=True, kinds=("coverage",)) == {}


def _not_unknown(self: Any, report: Any) -> Any:
    if isinstance(report, UnknownReport) and report.kind == "coverage":
        return str(report.operators)  # type: ignore[attr-defined]
    return Sound.render(self, report)


def _first(report: Any) -> str:
    return str(report.operators[0].operator[:0])


def _counting(_self: Any, _report: Any, counted: list[int] = []) -> int:  # noqa: B006 - that it is kept is the point
    counted.append(1)
    return len(counted)


CASES: list[tuple[str, str, type, dict[str, Any]]] = [
    ("is_what_it_declares", "no method 'render(report)'", changed(render=None), {}),
    ("is_what_it_declares", "writes a folder", Sound, {"folder": True, "extension": ""}),
    ("is_what_it_declares", "raised TypeError", changed(__init__=lambda self, path: None), {}),
    ("reads_kinds_that_there_are", "'coverag'", Sound, {"kinds": ("coverag", "coverage")}),
    ("reads_kinds_that_there_are", "no kind", Sound, {"kinds": ()}),
    ("declares_an_extension", "'json'", Sound, {"extension": "json"}),
    ("declares_an_extension", "only a file has", SoundFolder, {"folder": True, "kinds": ("coverage",)}),
    ("renders_what_it_reads", "made a bytes, and it declares that it is not", text(lambda made, _: made.encode()), {}),
    ("renders_what_it_reads", "nothing at all", text(lambda _made, _: ""), {}),
    ("renders_what_it_reads", "SystemExit: 3", changed(facts=lambda self, report: sys.exit(3)), {}),
    ("renders_empty_reports", "IndexError", changed(facts=lambda self, report: _first(report)), {}),
    (
        "renders_any_number",
        "with 0 in every place raised ZeroDivisionError",
        changed(facts=lambda self, report: report.operators and 1 / report.workload.parameters),
        {},
    ),
    (
        "renders_hostile_text",
        "UnicodeEncodeError",
        changed(facts=lambda self, report: len(report.workload.name.encode("ascii"))),
        {},
    ),
    (
        "says_what_it_cannot_read",
        "the kind 'coverage-several' should be rendered or refused",
        changed(render=lambda self, report: isinstance(report, UnknownReport) or json.dumps(self.facts(report)) + "\n"),
        {},
    ),
    ("says_what_is_too_new", "version 99 should be rendered or refused", changed(render=_not_unknown), {}),
    ("ends_with_one_line_end", "does not end with a line end but with", text(lambda made, _: made.strip()), {}),
    ("ends_with_one_line_end", "more than one line end", text(lambda made, _: made + "\n"), {}),
    ("is_the_same_every_time", "rendered a second time, comes out", changed(facts=_counting), {}),
    ("is_the_same_every_time", "line 1 was", changed(facts=lambda self, report: os.environ.get("COLUMNS")), {}),
    (
        "leaves_all_as_it_is",
        "changed the report itself",
        changed(facts=lambda self, report: report.operators.reverse()),
        {},
    ),
    ("leaves_all_as_it_is", "printed 'rendering", changed(facts=lambda self, report: print("rendering")), {}),  # noqa: T201
    (
        "keeps_control_characters_out",
        "U+001B",
        text(lambda _, report: f"{report.workload.name}.\n"),
        {"extension": ".txt"},
    ),
    (
        "stays_well_formed",
        "became an HTML element",
        text(lambda _, report: shown(report, "<p>{}</p>\n")),
        {"extension": ".html"},
    ),
    ("stays_well_formed", "not valid XML", text(lambda _, report: shown(report, "<p>{}</p>\n")), {"extension": ".xml"}),
    ("stays_well_formed", "NaN is not JSON", changed(facts=lambda self, report: float("nan")), {}),
]


@pytest.mark.parametrize(("clause", "says", "exporter", "more"), CASES)
def test_each_clause_is_broken_by_itself(clause: str, says: str, exporter: type, more: dict[str, Any]) -> None:
    found = broken(exporter, **more)
    assert set(found) == {clause}, found
    assert says in found[clause]


def test_a_kind_of_ones_own_is_rendered_when_a_report_is_given() -> None:
    weather = UnknownReport.model_validate({"kind": "weather", "schema_version": 1, "sections": []})
    exporter = changed(render=lambda self, report: f"{report.sections[0]}\n")
    declaration = ExporterDeclaration("badge", "badge:Badge", "x", ".txt", kinds=("weather",))
    [*_, found] = ExporterContract.of(declaration, None, made=exporter, reports=(weather,)).broken()
    assert found.clause == "renders_what_it_reads" and "your report 1 raised IndexError" in found.problem


def test_a_target_that_does_not_resolve_is_told_once() -> None:
    [found] = broken_clauses(ExporterDeclaration("x", "no_such_module_here:X", "x", ".x"))
    assert found.clause == "is_what_it_declares" and "no_such_module_here" in found.problem


SOUND = {
    "a.json": '{"a": [1, null, "\\u001b"]}',
    "a.jsonl": '{"a": 1}\n\n{"a": 2}\n',
    "a.html": f"<p title='&lt;{MARKED_ELEMENT}&gt;'>&lt;{MARKED_ELEMENT}&gt; <a href='https://localhost'>x</a></p>",
    "a.svg": "<svg xmlns='http://www.w3.org/2000/svg'><text>&lt;b&gt;</text></svg>",
    "a.csv": 'a,b\r\n"\'=HYPERLINK(1)",2\r\n',
    "a.tsv": "a\tb\n1\t2\n",
    "a.prom": "anything {at all",
    "a": "<",
    "A.JSON": "{}",
}
UNSOUND: dict[str, tuple[str | bytes, str]] = {
    "a.json": ('{"a": Infinity}', "Infinity is not JSON"),
    "b.json": ("{", "is not valid JSON"),
    "a.jsonl": ('{"a": 1}\n{"a": NaN}\n', "NaN is not JSON"),
    "a.html": (f"<p><{MARKED_ELEMENT.upper()}>x</p>", "became an HTML element"),
    "b.html": ("<a href=' javascript:alert(1)'>x</a>", "a script in the attribute href"),
    "a.xml": (f"<a xmlns='x'><{MARKED_ELEMENT}/></a>", "became an XML element"),
    "b.xml": ("<a>", "is not valid XML"),
    "a.csv": ('a," =HYPERLINK(1)"\n', "became a formula"),
    "b.csv": ('a,"b', "is not valid CSV"),
    "a.tsv": ("a\t=HYPERLINK(1)\n", "became a formula"),
    "c.json": (b"\xff", "is not valid JSON"),
    "d.json.gz": (b"not compressed", "is not valid GZ"),
}


def test_output_is_compared_with_its_format() -> None:
    for path, content in SOUND.items():
        want_well_formed(path, content, "it")
        want_well_formed(path + ".gz", gzip.compress(content.encode()), "it")
    for path, (wrong, says) in UNSOUND.items():
        with pytest.raises(Broken, match=says):
            want_well_formed(path, wrong, "it")


def test_control_characters_are_found_but_for_those_that_make_lines() -> None:
    want_no_control_characters("a\tb\r\n\N{SNOWMAN}\n", "it")
    want_no_control_characters("a\rb", "it", returns=False)
    for wrong in ("a\x1b[0m", "a\x00", "a\x9b", "a\rb", "a\x7f"):
        with pytest.raises(Broken, match=r"U\+00"):
            want_no_control_characters(wrong, "it")


def test_the_first_difference_is_shown_where_it_is() -> None:
    assert first_difference(b"a\nbcd\n", b"a\nbxd\n") == ": line 2 was b'bcd', then b'bxd'"
    assert first_difference(b"a\n", b"a\nb\n") == ": 2 bytes, then 4"
