"""Each clause of the contract for exporters can be broken, and a sound exporter breaks none."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from mpsprobe.declarations import ExporterDeclaration
from mpsprobe.errors import ReportError
from mpsprobe.schemas import CoverageReport, MatrixReport, Report, UnknownReport
from mpsprobe_devkit.testing import broken_clauses
from mpsprobe_devkit.testing.contracts.exporter import EXPORTER, ExporterSubject
from mpsprobe_devkit.testing.contracts.subjects import given
from tests.thorough import all_but


class Sound:
    """One line of JSON: what was run, and what is not native."""

    def render(self, report: Report) -> Any:
        if not isinstance(report, (CoverageReport, MatrixReport)):
            raise ReportError("it reads coverage")
        return json.dumps(self.facts(report)) + "\n"

    def facts(self, report: Any) -> dict[str, Any]:
        return {"name": report.workload.name, "operators": [one.operator for one in report.operators]}


class SoundFolder:
    """Two files."""

    def files(self, report: Report) -> Iterable[tuple[str, Iterable[str | bytes]]]:
        if not isinstance(report, CoverageReport):
            raise ReportError("it reads coverage")
        yield "run/name.json", [json.dumps(report.workload.name), "\n"]
        yield "run/operators.txt", [f"{len(report.operators)}\n".encode()]


def declared(**more: Any) -> ExporterDeclaration:
    options: dict[str, Any] = {"extension": ".json", "kinds": ("coverage", "coverage-matrix"), **more}
    return ExporterDeclaration("badge", "badge:Badge", "under test", **options)


def broken(exporter: Any, **more: Any) -> dict[str, str]:
    """The clauses that it breaks, with what is said."""
    found = EXPORTER.broken(ExporterSubject(declared(**more), given(exporter)))
    return {one.clause: one.problem for one in found}


def test_a_sound_one_breaks_nothing() -> None:
    assert broken(Sound) == {}
    assert broken(SoundFolder, extension="", folder=True, kinds=("coverage",)) == {}


class NotAnExporter:
    def draw(self, report: Report) -> str:
        raise NotImplementedError(report.kind)


class CannotBeMade(Sound):
    def __init__(self, path: str) -> None:
        raise NotImplementedError(path)


class BytesForText(Sound):
    def render(self, report: Report) -> Any:
        return super().render(report).encode()


class Nothing(Sound):
    def render(self, report: Report) -> Any:
        super().render(report)
        return ""


class NeedsOperators(Sound):
    def facts(self, report: Any) -> dict[str, Any]:
        return {"name": report.operators[0].operator[:0] + report.workload.name}


class Divides(Sound):
    def facts(self, report: Any) -> dict[str, Any]:
        return {"share": 1 / max(1, report.workload.parameters) if report.operators == [] else self.share(report)}

    def share(self, report: Any) -> float:
        return float(1 / report.workload.parameters)


class KnowsItsKeys(Sound):
    def facts(self, report: Any) -> dict[str, Any]:
        assert not report.workload.model_extra, "a key that no schema has"
        return super().facts(report)


class Ascii(Sound):
    def facts(self, report: Any) -> dict[str, Any]:
        report.workload.name.encode("ascii")
        return super().facts(report)


class Trusting(Sound):
    def render(self, report: Report) -> Any:
        if isinstance(report, UnknownReport):
            return super().render(report)
        return json.dumps(self.facts(report)) + "\n"


class TrustsItsKind(Sound):
    def render(self, report: Report) -> Any:
        if isinstance(report, UnknownReport) and report.kind == "coverage":
            return str(report.operators)  # type: ignore[attr-defined]
        return super().render(report)


class NoLineEnd(Sound):
    def render(self, report: Report) -> Any:
        return super().render(report).strip()


class TwoLineEnds(Sound):
    def render(self, report: Report) -> Any:
        return super().render(report) + "\n"


class Counts(Sound):
    count = 0

    def facts(self, report: Any) -> dict[str, Any]:
        Counts.count += 1
        return {"count": Counts.count}


class LooksAtTheTerminal(Sound):
    def facts(self, report: Any) -> dict[str, Any]:
        return {"width": os.environ.get("COLUMNS")}


class Sorts(Sound):
    def facts(self, report: Any) -> dict[str, Any]:
        report.operators.sort(key=lambda one: one.calls)
        return super().facts(report)


class Prints(Sound):
    def facts(self, report: Any) -> dict[str, Any]:
        print("rendering")  # noqa: T201 - what the clause is about
        return super().facts(report)


class Raw(Sound):
    def render(self, report: Report) -> Any:
        super().render(report)
        return f"{report.workload.name}.\n"  # type: ignore[union-attr]


class RawHtml(Sound):
    def render(self, report: Report) -> Any:
        clean = "".join(c if c.isprintable() else "?" for c in super().render(report))
        return f"<p>{clean}</p>\n"


class RawCsv(Sound):
    def render(self, report: Report) -> Any:
        super().render(report)
        name = report.workload.name.replace('"', '""')  # type: ignore[union-attr]
        return '"' + "".join(c if c.isprintable() else "?" for c in name) + '"\n'


class RawXml(RawHtml):
    pass


class NotANumber(Sound):
    def render(self, report: Report) -> Any:
        super().render(report)
        return json.dumps({"share": float("nan")}) + "\n"


class StreamsOther(Sound):
    def stream(self, report: Report) -> Iterable[str]:
        yield self.render(report)
        yield "and more\n"


class DrawsRaw(Sound):
    def render_for_terminal(self, report: Report) -> str:
        return f"\x1b[1m{report.workload.name}\x1b[0m\n"  # type: ignore[union-attr]


class DrawsBytes(Sound):
    def render_for_terminal(self, report: Report) -> bytes:
        return bytes(self.render(report).encode())


class Quits(Sound):
    def facts(self, report: Any) -> dict[str, Any]:
        sys.exit(3)


CASES: list[tuple[type, str, str, dict[str, Any]]] = [
    (NotAnExporter, "is_what_it_declares", "no method 'render(report)'", {}),
    (Sound, "is_what_it_declares", "writes a folder", {"folder": True, "extension": ""}),
    (CannotBeMade, "is_what_it_declares", "CannotBeMade() raised TypeError", {}),
    (Sound, "reads_kinds_that_there_are", "'coverag'", {"kinds": ("coverag", "coverage")}),
    (Sound, "reads_kinds_that_there_are", "no kind", {"kinds": ()}),
    (Sound, "declares_an_extension", "'json'", {"extension": "json"}),
    (SoundFolder, "declares_an_extension", "'.json'", {"folder": True, "kinds": ("coverage",)}),
    (BytesForText, "renders_what_it_reads", "made a bytes, and it declares that it is not binary", {}),
    (NeedsOperators, "renders_empty_reports", "IndexError", {}),
    (Divides, "renders_any_number", "with 0 in every place raised ZeroDivisionError", {}),
    (KnowsItsKeys, "renders_unknown_keys", "AssertionError: a key that no schema has", {}),
    (Ascii, "renders_hostile_text", "UnicodeEncodeError", {}),
    (Trusting, "says_what_it_cannot_read", "the kind 'coverage-several' should be rendered or refused", {}),
    (TrustsItsKind, "says_what_is_too_new", "version 99 should be rendered or refused", {}),
    (NoLineEnd, "ends_with_one_line_end", "does not end with a line end but with", {}),
    (TwoLineEnds, "ends_with_one_line_end", "more than one line end", {}),
    (LooksAtTheTerminal, "does_not_look_at_the_terminal", "line 1 was", {}),
    (Prints, "prints_nothing", "printed 'rendering", {}),
    (Raw, "keeps_control_characters_out", "U+001B", {"extension": ".txt"}),
    (RawHtml, "stays_well_formed", "became an HTML element", {"extension": ".html"}),
    (RawXml, "stays_well_formed", "not valid XML", {"extension": ".xml"}),
    (RawCsv, "stays_well_formed", "became a formula", {"extension": ".csv"}),
    (StreamsOther, "streams_what_it_renders", "comes out differently", {}),
    (DrawsRaw, "draws_for_the_terminal", "drawn for a terminal, has the control character", {}),
    (DrawsBytes, "draws_for_the_terminal", "made a bytes", {}),
]


@pytest.mark.parametrize(("exporter", "clause", "says", "more"), CASES, ids=lambda one: getattr(one, "__name__", None))
def test_each_clause_is_broken_by_itself(exporter: type, clause: str, says: str, more: dict[str, Any]) -> None:
    found = broken(exporter, **more)
    assert set(found) == {clause}, found
    assert says in found[clause]


def test_one_that_counts_is_never_the_same() -> None:
    assert set(broken(Counts)) == {"is_the_same_every_time", "does_not_look_at_the_terminal"}


def test_one_that_sorts_the_report_changes_what_others_see() -> None:
    assert "changed the report itself" in broken(Sorts)["leaves_the_report_as_it_is"]


def test_nan_is_no_json() -> None:
    found = broken(NotANumber)
    assert (
        set(found) == {"stays_well_formed", "renders_unknown_keys"} and "NaN is not JSON" in found["stays_well_formed"]
    )


def test_what_cannot_render_at_all_is_told_once() -> None:
    [(clause, says)] = broken(Quits).items()
    assert clause == "renders_what_it_reads" and "SystemExit: 3" in says


def test_nothing_at_all_is_no_output() -> None:
    assert "nothing at all" in broken(Nothing)["renders_what_it_reads"]


PATHS = {
    "../elsewhere/x.txt": "not a relative path",
    "/run/x.txt": "not a relative path",
    "x.txt": "not a relative path",
    "run//x.txt": "not a relative path",
    "run/a:b.txt": "not every system takes",
    "run/a\nb.txt": "not every system takes",
    "run/CON.txt": "Windows does not take",
    "run/x.": "Windows does not take",
    "run/" + "x" * 300: "more than 255 bytes",
    "other/x.txt": "2 folders instead of one",
    "run/NAME.json": "differ in case only",
}


@pytest.mark.parametrize("path", PATHS)
def test_folders_are_kept_to(path: str) -> None:
    class Leads(SoundFolder):
        def files(self, report: Report) -> Iterable[tuple[str, Iterable[str | bytes]]]:
            yield from super().files(report)
            yield path, ["1\n"]

    found = broken(Leads, extension="", folder=True, kinds=("coverage",))
    assert set(found) == {"keeps_to_one_folder"} and PATHS[path] in found["keeps_to_one_folder"]


MODULE = """
import json
from mpsprobe.errors import ReportError
from mpsprobe.schemas import CoverageReport

class Badge:
    def render(self, report):
        if not isinstance(report, CoverageReport):
            raise ReportError("it reads coverage")
        {line}
        return json.dumps({{"name": report.workload.name, "value": value}}) + "\\n"
"""
ELSEWHERE = {
    "value = 1": set(),
    "value = sorted({one.operator for one in report.operators})": set(),
    "value = list({f'{one} {n}' for one in report.operators for n in range(50)})": {"is_the_same_in_another_process"},
    "import datetime; value = str(datetime.date.today())": {"is_the_same_in_another_process"},
    "import time; value = time.strftime('%d')": {"is_the_same_in_another_process"},
    "import os; value = os.getcwd()": {"is_the_same_in_another_process"},
    "import os; value = os.getpid()": {"is_the_same_in_another_process"},
    "import torch; value = 1": {"does_not_import_torch"},
    "open('kept.txt', 'w').close(); value = 1": {"leaves_files_and_network_alone"},
    "import socket; s = socket.socket(); s.connect_ex(('127.0.0.1', 9)); s.close(); value = 1": {
        "leaves_files_and_network_alone"
    },
    "import tempfile; tempfile.TemporaryFile().close(); value = 1": set(),
}


@pytest.mark.parametrize("line", all_but(lambda line: line in [*ELSEWHERE][:3], ELSEWHERE))
def test_what_only_another_process_shows(
    line: str, plugin_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (plugin_folder / "badge.py").write_text(MODULE.format(line=line), encoding="utf-8")
    found = broken_clauses(declared(kinds=("coverage",)))
    assert {one.clause for one in found} == ELSEWHERE[line], found


def test_from_datetime_import_datetime_is_another_day_too(plugin_folder: Path) -> None:
    code = "from datetime import datetime, date\n" + MODULE.format(
        line="value = datetime.now().year + date.today().day"
    )
    (plugin_folder / "badge.py").write_text(code, encoding="utf-8")
    [found] = broken_clauses(declared(kinds=("coverage",)))
    assert found.clause == "is_the_same_in_another_process"


def test_a_target_that_does_not_resolve_is_told_once() -> None:
    [found] = broken_clauses(ExporterDeclaration("x", "no_such_module_here:X", "x", ".x"))
    assert found.clause == "is_what_it_declares" and "no_such_module_here" in found.problem


def test_a_process_that_dies_is_told(plugin_folder: Path) -> None:
    line = "import os, sys; os._exit(3) if 'work' in vars(sys.modules['__main__']) else None; value = 1"
    (plugin_folder / "badge.py").write_text(MODULE.format(line=line), encoding="utf-8")
    found = broken_clauses(declared(kinds=("coverage",)))
    assert all("ended it with the code 3" in one.problem for one in found) and len(found) == 3


def test_a_kind_of_ones_own_is_rendered_when_a_report_is_given(plugin_folder: Path) -> None:
    code = MODULE.replace("isinstance(report, CoverageReport)", "report.kind == 'weather'")
    line = "value = report.sections[0]['degrees_celsius'] if hasattr(report, 'sections') else 0"
    text = code.format(line=line).replace("report.workload.name", "report.kind")
    (plugin_folder / "badge.py").write_text(text, encoding="utf-8")
    weather = UnknownReport.model_validate({"kind": "weather", "schema_version": 1, "sections": []})
    found = {one.clause: one.problem for one in broken_clauses(declared(kinds=("weather",)), reports=[weather])}
    assert "your report 1 raised IndexError" in found["renders_what_it_reads"]
