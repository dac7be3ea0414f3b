"""What the atlas answers to ``coverage`` and ``upgrade``: what a run says, and nothing where it cannot know that."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import pytest

from mpsprobe.declarations import SweptWorkload
from mpsprobe_atlas import answering
from mpsprobe_atlas.answering import known_answer
from mpsprobe_atlas.answers import pack, unpack
from mpsprobe_atlas.store import Key, Row, Store, WritableStore
from mpsprobe_atlas.sweep.rows import worked_out
from mpsprobe_atlas.sweep.sweeping import stamped, versions
from mpsprobe_coverage import rules
from mpsprobe_devkit.testing import run_cli
from mpsprobe_devkit.testing.commands import command_environment
from tests.fuzz.changing import document_changed

RELEASES = ("1.12.0", "2.6.0", "2.13.0")
NAME = "bert-base"
QUESTION: dict[str, Any] = {
    "command": "coverage",
    "workload": NAME,
    "options": {"size": "small", "torch_release": "2.6.0"},
}


@pytest.fixture(scope="module")
def atlas(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with one workload, as a sweep makes it."""
    row = replace(worked_out(Key(NAME, "small", "inference", "float32"), RELEASES), made="2026-11-22T19:30:00+00:00")
    path = tmp_path_factory.mktemp("atlas") / "atlas.sqlite"
    with WritableStore(path, {"versions": versions(), "releases": RELEASES}) as store:
        store.add(stamped(row, None, rules.worked_out()))
        store.add(Row(NAME, "small", "training", "float32", "failed", error="it took too long", made=row.made))
    return path


@pytest.fixture(autouse=True)
def used(atlas: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(answering.VARIABLE, str(atlas))
    monkeypatch.setattr(answering, "_is_edited", lambda: False)


def asked(**options: Any) -> dict[str, Any]:
    return {**QUESTION, "options": {**QUESTION["options"], **options}}


def test_a_list_of_workloads_says_what_the_atlas_answers() -> None:
    assert answering.swept_workloads() == [SweptWorkload(NAME, ("inference",))]


def test_it_says_what_a_run_says(atlas: Path) -> None:
    for flags in (
        ("--torch", "2.6.0"),
        ("--torch", "1.12.0,2.6.0,2.13.0"),
        ("--torch", "1.12.0", "--chip", "m2-16gb"),
        ("--torch", "2.13.0", "--memory", "64GB", "--explain"),
        ("--torch", "2.6.0,2.13.0", "--chip", "m1-8gb"),
    ):
        command = ("coverage", NAME, "--size", "small", *flags, "--format", "json")
        expected, found = (
            run_cli(*command, which, process=False, variables={answering.VARIABLE: str(atlas)}).json()
            for which in ("--no-atlas", "--atlas")
        )
        assert found.pop("recalled")["source"].startswith("mpsprobe-atlas ")
        assert expected.pop("recalled") is None
        time = expected.pop("time", None)  # of one release on a chip
        assert (time is not None) == ("--chip" in flags and "," not in flags[1])
        assert found.pop("time", None) is None and found == expected


def test_by_itself_it_answers_only_what_a_run_would_say(monkeypatch: pytest.MonkeyPatch) -> None:
    found = known_answer(QUESTION, "same")
    assert found is not None and found.report is not None
    assert found.made == "2026-11-22T19:30:00Z" and not found.notes
    now = rules.stated()
    others = (
        now._replace(code=("other",)),
        now._replace(releases={**now.releases, "2.6.0": "other"}),
        now._replace(operators=dict.fromkeys(now.operators, "other") | {"aten::linear": "other"}),
    )
    for where, name, value in ((answering, "_is_edited", True), *((rules, "stated", one) for one in others)):
        with monkeypatch.context() as patch:
            patch.setattr(where, name, lambda value=value: value)
            assert known_answer(QUESTION, "same") is None
            assert known_answer(QUESTION, "any") is not None
    with monkeypatch.context() as patch:  # these are newer, and say that their answers are the same
        same = {"code": ("newer", *now.code), "releases": {**now.releases, "2.13.0": "other"}}
        patch.setattr(rules, "stated", lambda: now._replace(**same))
        assert known_answer(QUESTION, "same") is not None
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


def test_what_it_does_not_hold_it_says() -> None:
    for options, reason in (
        ({"batch_size": 4}, "the atlas holds no answer with --batch-size"),
        ({"autocast": "float16"}, "the atlas holds no answer with --autocast"),
        ({"macos": "14"}, "the atlas holds no answer with --macos"),
        ({"weights": True}, "the atlas holds no answer with --weights"),
        ({"dtype": "float16"}, f"the atlas holds no answer about {NAME} with --size small"),
        ({"phase": "training"}, "the sweep of the atlas failed on it: it took too long"),
        ({"torch_release": "2.5.0"}, "the atlas does not hold torch 2.5.0"),
        ({"torch_release": "9.9"}, "the atlas cannot answer: "),
        ({"memory": 3 * 2**30}, "the atlas does not know whether it fits on that Mac"),
    ):
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


def test_what_is_drawn_at_once_is_what_the_report_is_drawn_as(atlas: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for asked, (width, *flags) in product(
        (("2.6.0",), ("1.12.0",), ("1.12.0,2.6.0,2.13.0",), ("2.6.0", "--all")),
        (("100", "--format", "json"), ("40",), ("81",), ("200",)),
    ):
        command = ("coverage", NAME, "--size", "small", "--atlas", "--torch", *asked, *flags)
        variables = {answering.VARIABLE: str(atlas), "COLUMNS": width}
        drawn = run_cli(*command, process=False, variables=variables)
        with monkeypatch.context() as patch:
            patch.setattr("mpsprobe.views.view", lambda document: None)
            slowly = run_cli(*command, process=False, variables=variables)
        assert (drawn.stdout, drawn.code) == (slowly.stdout, slowly.code) and drawn.stdout


def test_a_changed_store_is_an_answer_or_an_error_in_words(tmp_path: Path, atlas: Path) -> None:
    with Store(atlas) as store:
        about, row = store.about(), store.row(NAME, "small", "inference", "float32")
    assert row is not None and row.answer is not None
    report, random, codes = unpack(row.answer).report("2.6.0"), Random(7), set()
    for number in range(30):
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


EACH = """
from mpsprobe.cli.main import main
for arguments in json.loads(sys.argv[1]):
    try:
        code = main(arguments)
    except SystemExit as ended:
        code = ended.code
    print(f"ended with {code}", flush=True)
"""
WITHOUT_TORCH = f"""
import json, sys
from mpsprobe.plugins import discovery
real = discovery.installed
discovery.installed = lambda names: real(set(names) - {{"torch", "transformers"}})
sys.modules["torch"] = sys.modules["transformers"] = None
{EACH}"""
IMPORTED = f"""
import json, sys
{EACH}
print(json.dumps([name for name in sys.modules if "." not in name]))
"""
HEAVY = {"torch", "pydantic", "pydantic_core", "transformers", "numpy", "rich", "packaging", "email", "pathlib"}


def outputs(program: str, commands: Iterable[Sequence[str]], atlas: Path) -> list[str]:
    """What each command wrote in one new process, with its exit code at the end; last what the program wrote."""
    asked = [["coverage", NAME, "--size", "small", *arguments] for arguments in commands]
    finished = subprocess.run(
        [sys.executable, "-u", "-c", program, json.dumps(asked)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True, encoding="utf-8", cwd=atlas.parent,
        env=command_environment({answering.VARIABLE: str(atlas)}),
    )  # fmt: skip
    return re.split(r"(?<=ended with \d)\n", finished.stdout)


def test_without_torch(atlas: Path) -> None:
    answered = [["2.6.0"], ["2.6.0", "--format", "markdown"], ["1.12.0", "--fail-on", "missing"]]
    commands = [*(["--torch", *arguments] for arguments in answered), ["--torch", "2.6.0", "--batch-size", "4"], []]
    *found, batch, unnamed, _ = outputs(WITHOUT_TORCH, commands, atlas)
    for text in found:
        assert "From mpsprobe-atlas " in text and "mpsprobe[all]" not in text and text.endswith("ended with 0")
    for text, said in (
        (batch, "with --batch-size; to work it out takes torch"),
        (unnamed, "name one with --torch 2.13.0"),
    ):
        assert said in text and "mpsprobe[all]" in text and text.endswith("ended with 2")


def test_the_first_answers_import_nothing_heavy(atlas: Path) -> None:
    further = ((), ("--all",), ("--format", "json"), ("--torch", "1.12.0"))
    *found, modules = outputs(IMPORTED, (("--atlas", "--torch", "2.6.0", *more) for more in further), atlas)
    assert len(found) == 4
    assert all("mpsprobe-atlas " in text and text.endswith("ended with 0") for text in found)
    assert not HEAVY.intersection(json.loads(modules))


def test_an_upgrade(real: Path) -> None:
    missing = {"aten::_ctc_loss": "missing", "aten::_ctc_loss_backward": "missing"}
    asked = ("--phase", "training", "--size", "small", "--atlas", "--no-cache", "--format", "json")
    variables = {answering.VARIABLE: str(real)}
    for releases in (("2.6.0", "2.15.0"), ("2.15.0", "2.6.0")):
        command = ("upgrade", *releases, "hf:wav2vec2/Wav2Vec2ForCTC", *asked)
        [one] = run_cli(*command, variables=variables, process=False).json()["workloads"]
        found = {one[side]["target"]["torch"]: one[side]["findings"] for side in ("old", "new")}
        assert found == {"2.6.0": missing, "2.15.0": {}} and [*found] == [*releases]
    result = run_cli("upgrade", *releases, "hf:gpt2", *asked, variables=variables, process=False)
    assert result.code == 2
    assert "the atlas holds no answer about hf:gpt2" in json.loads(result.stdout)["workloads"][0]["error"]
