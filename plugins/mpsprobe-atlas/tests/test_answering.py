"""What the atlas answers to ``mpsprobe coverage``: what a run says, and nothing where it cannot know that."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from mpsprobe.declarations import SweptWorkload
from mpsprobe.plugins.registry import get_registry
from mpsprobe.progress import SilentProgress
from mpsprobe.protocols import RunOptions
from mpsprobe_atlas import answering
from mpsprobe_atlas.answering import known_answer
from mpsprobe_atlas.answers import pack, unpack
from mpsprobe_atlas.store import Row, Store, WritableStore
from mpsprobe_atlas.sweep.plan import versions
from mpsprobe_atlas.tables import tables
from mpsprobe_coverage.scanner.releases import release_answers
from mpsprobe_devkit.testing import run_cli
from mpsprobe_devkit.testing.commands import command_environment
from tests.fuzz.changing import document_changed

RELEASES = ("1.12.0", "2.6.0", "2.13.0")
NAME = "bert-base"
QUESTION: dict[str, Any] = {
    "command": "coverage",
    "workload": NAME,
    "options": {
        **{name: getattr(RunOptions(), name) for name in RunOptions.__slots__},
        "size": "small", "torch_release": "2.6.0", "method": "auto", "explain": False, "vary": None, "atlas": None,
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def atlas(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with one workload, as a sweep makes it."""
    options = RunOptions(size="small")
    found = release_answers(get_registry().workload(NAME), options, RELEASES, SilentProgress())
    reports = {release: one.report.model_dump(mode="json") for release, one in found.items()}
    fits = {release: {str(size): answer for size, answer in one.fits.items()} for release, one in found.items()}
    path = tmp_path_factory.mktemp("atlas") / "atlas.sqlite"
    with WritableStore(path, {"versions": versions(), "tables": tables(), "releases": list(RELEASES)}) as store:
        made = "2026-11-22T19:30:00+00:00"
        store.add(Row(NAME, "small", "inference", "float32", "answered", made=made, answer=pack(reports, fits)))
        store.add(Row(NAME, "small", "training", "float32", "failed", error="it took too long", made=made))
    return path


@pytest.fixture(autouse=True)
def used(atlas: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(answering.VARIABLE, str(atlas))
    monkeypatch.setattr(answering, "_is_edited", lambda: False)


def asked(**options: Any) -> dict[str, Any]:
    return {**QUESTION, "options": {**QUESTION["options"], **options}}


def test_a_list_of_workloads_says_what_the_atlas_answers() -> None:
    assert answering.swept_workloads() == [SweptWorkload(NAME, ("inference",))]


@pytest.mark.parametrize(
    "flags",
    [
        ("--torch", "2.6.0"),
        ("--torch", "1.12.0,2.6.0,2.13.0"),
        ("--torch", "1.12.0", "--chip", "m2-16gb"),
        ("--torch", "2.13.0", "--memory", "64GB", "--explain"),
        ("--torch", "2.6.0,2.13.0", "--chip", "m1-8gb"),
    ],
    ids=" ".join,
)
def test_it_says_what_a_run_says(flags: tuple[str, ...], atlas: Path) -> None:
    variables = {answering.VARIABLE: str(atlas)}
    command = ("coverage", NAME, "--size", "small", *flags, "--format", "json")
    run, known = (run_cli(*command, which, process=False, variables=variables) for which in ("--no-atlas", "--atlas"))
    expected, found = run.json(), known.json()
    assert found.pop("recalled")["source"].startswith("mpsprobe-atlas ")
    assert expected.pop("recalled") is None
    assert found == expected


def test_by_itself_it_answers_only_what_a_run_would_say(monkeypatch: pytest.MonkeyPatch) -> None:
    found = known_answer(QUESTION, "same")
    assert found is not None and found.report is not None
    assert found.made == "2026-11-22T19:30:00Z" and not found.notes
    for name, value in (("_is_edited", lambda: True), ("_tables", lambda: "of another release")):
        with monkeypatch.context() as patch:
            patch.setattr(answering, name, value)
            assert known_answer(QUESTION, "same") is None
            assert known_answer(QUESTION, "any") is not None
    with monkeypatch.context() as patch:  # a Mac's own torch is asked, where it can be
        patch.setattr(answering.platform, "system", lambda: "Darwin")
        by_itself, wherever = (known_answer(asked(torch_release="installed"), wanted) for wanted in ("same", "any"))
        assert by_itself is not None and by_itself.report is None
        assert wherever is not None and wherever.report is not None
    here = answering.installed
    other = {"transformers": ("9.9", "")}
    monkeypatch.setattr(answering, "installed", lambda names: here(names) | other)
    assert known_answer(QUESTION, "same") is None
    found = known_answer(QUESTION, "any")
    assert found is not None and found.report is not None
    assert "9.9 here" in found.notes[0]


def test_it_answers_where_no_plugin_could_build_it(atlas: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answering, "_is_edited", lambda: True)
    variables = {answering.VARIABLE: str(atlas)}
    command = ("-p", "no:hf", "coverage", NAME, "--size", "small", "--torch", "2.6.0")
    for shown in ("table", "markdown"):
        found = run_cli(*command, "--format", shown, process=False, variables=variables)
        assert found.code == 0 and "From mpsprobe-atlas " in found.stdout
    for more in (("--no-atlas",), ("--batch-size", "4")):
        found = run_cli(*command, *more, process=False, variables=variables)
        assert f"unknown workload '{NAME}'" in found.stderr


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"batch_size": 4}, "the atlas holds no answer with --batch-size"),
        ({"autocast": "float16"}, "the atlas holds no answer with --autocast"),
        ({"macos": "14"}, "the atlas holds no answer with --macos"),
        ({"weights": True}, "the atlas holds no answer with --weights"),
        ({"dtype": "float16"}, f"the atlas holds no answer about {NAME} with --size small"),
        ({"phase": "training"}, "the sweep of the atlas failed on it: it took too long"),
        ({"torch_release": "2.5.0"}, "the atlas does not hold torch 2.5.0"),
        ({"torch_release": "9.9"}, "the atlas cannot answer: "),
        ({"memory": 3 * 2**30}, "the atlas does not know whether it fits on that Mac"),
    ],
)
def test_what_it_does_not_hold_it_says(options: dict[str, Any], reason: str) -> None:
    found = known_answer(asked(**options), "any")
    assert found is not None and found.report is None
    assert found.reason.startswith(reason)


def test_it_has_no_say(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert known_answer({**QUESTION, "command": "fit"}, "any") is None
    monkeypatch.setenv(answering.VARIABLE, str(tmp_path / "none.sqlite"))
    missing = known_answer(QUESTION, "any")
    assert missing is not None and missing.reason == f"MPSPROBE_ATLAS names no file: {tmp_path / 'none.sqlite'}"
    (tmp_path / "none.sqlite").write_bytes(b"no store")
    found = known_answer(QUESTION, "any")
    assert found is not None and found.reason.startswith("the atlas cannot answer: ")


@pytest.mark.parametrize("asked", [("2.6.0",), ("1.12.0",), ("1.12.0,2.6.0,2.13.0",), ("2.6.0", "--all")], ids=" ".join)
def test_what_is_drawn_at_once_is_what_the_report_is_drawn_as(
    asked: tuple[str, ...], atlas: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("coverage", NAME, "--size", "small", "--atlas", "--torch", *asked)
    for width, flags in ((100, ("--format", "json")), (40, ()), (81, ()), (200, ())):
        variables = {answering.VARIABLE: str(atlas), "COLUMNS": str(width)}
        drawn = run_cli(*command, *flags, process=False, variables=variables)
        with monkeypatch.context() as patch:
            patch.setattr("mpsprobe.views.view", lambda document: None)
            slowly = run_cli(*command, *flags, process=False, variables=variables)
        assert (drawn.stdout, drawn.code) == (slowly.stdout, slowly.code) and drawn.stdout


def test_a_changed_store_is_an_answer_or_an_error_in_words(tmp_path: Path, atlas: Path) -> None:
    with Store(atlas) as store:
        about, row = store.about(), store.row(NAME, "small", "inference", "float32")
    assert row is not None and row.answer is not None
    report, random, codes = unpack(row.answer).report("2.6.0"), Random(7), set()
    for number in range(60):
        try:
            changed = pack({"2.6.0": document_changed(report, random)}, {})
        except (UnicodeEncodeError, AttributeError, KeyError, TypeError):
            continue  # no store can have it
        path = tmp_path / f"{number}.sqlite"
        with WritableStore(path, about) as written:
            written.add(replace(row, answer=changed))
        asked = ("coverage", NAME, "--size", "small", "--torch", "2.6.0", "--atlas")
        found = run_cli(*asked, process=False, variables={answering.VARIABLE: str(path)})
        assert found.code in (0, 2) and "unexpected" not in found.stderr, found.stderr
        assert all(line.isprintable() for line in found.stdout.splitlines())
        codes.add(found.code)
    assert codes == {0, 2}


WITHOUT_TORCH = """
import sys
from mpsprobe.plugins import discovery
real = discovery.installed
discovery.installed = lambda names: real(set(names) - {"torch", "transformers"})
sys.modules["torch"] = sys.modules["transformers"] = None
from mpsprobe.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--torch", "2.6.0"], 0, "From mpsprobe-atlas "),
        (["--torch", "2.6.0", "--format", "markdown"], 0, "From mpsprobe-atlas "),
        (["--torch", "1.12.0", "--fail-on", "missing"], 0, "From mpsprobe-atlas "),
        (["--torch", "2.6.0", "--batch-size", "4"], 2, "with --batch-size; to work it out takes torch"),
        ([], 2, "name one with --torch 2.13.0"),
    ],
)
def test_without_torch(arguments: list[str], code: int, said: str, tmp_path: Path, atlas: Path) -> None:
    environment = command_environment({answering.VARIABLE: str(atlas)})
    finished = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, "coverage", NAME, "--size", "small", *arguments],
        capture_output=True, text=True, check=False, encoding="utf-8", cwd=tmp_path, env=environment,
    )  # fmt: skip
    assert finished.returncode == code, finished.stderr
    assert said in finished.stdout + finished.stderr
    assert (code == 0) == ("mpsprobe[all]" not in finished.stderr)


IMPORTED = """
import json, sys
from mpsprobe.cli.main import main
code = main(sys.argv[1:])
sys.stdout.flush()
print(json.dumps([code, sorted(name for name in sys.modules if "." not in name)]), file=sys.stderr)
"""
HEAVY = {"torch", "pydantic", "pydantic_core", "transformers", "numpy", "rich", "packaging", "email", "pathlib"}


@pytest.mark.parametrize("more", [(), ("--all",), ("--format", "json"), ("--torch", "1.12.0")], ids=" ".join)
def test_the_first_answer_imports_nothing_heavy(more: tuple[str, ...], tmp_path: Path, atlas: Path) -> None:
    finished = subprocess.run(
        [sys.executable, "-c", IMPORTED, "coverage", NAME, "--size", "small", "--atlas", "--torch", "2.6.0", *more],
        capture_output=True, text=True, check=True, encoding="utf-8", cwd=tmp_path,
        env=command_environment({answering.VARIABLE: str(atlas)}),
    )  # fmt: skip
    code, modules = json.loads(finished.stderr.splitlines()[-1])
    assert code == 0 and "mpsprobe-atlas " in finished.stdout
    assert not HEAVY.intersection(modules)
