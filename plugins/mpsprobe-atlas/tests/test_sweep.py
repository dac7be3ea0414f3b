"""A sweep on one machine: one row for each workload, whatever becomes of it, and nothing twice."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from pathlib import Path

import pytest

from mpsprobe.declarations import DTYPES
from mpsprobe.errors import UsageError
from mpsprobe.plugins.registry import get_registry
from mpsprobe.progress import SilentProgress
from mpsprobe.protocols import RunOptions
from mpsprobe_atlas.answers import pack, unpack
from mpsprobe_atlas.store import Asked, Key, Row, Store, WritableStore
from mpsprobe_atlas.sweep import sweeping
from mpsprobe_atlas.sweep.rows import as_text, from_text, rows_of
from mpsprobe_atlas.sweep.sweeping import Plan, versions
from mpsprobe_coverage import rules
from mpsprobe_coverage.pool import Limits
from mpsprobe_coverage.scanning.scan import CoverageScanner
from mpsprobe_devkit.testing import CommandResult, run_cli

MODELS = """
import os, time
import torch


class Net(torch.nn.Module):
    def forward(self, x):
        return x.cumsum(0)


def sound():
    return Net(), torch.ones(3, 3)


def raises():
    raise LookupError("no weights here")


def hangs():
    time.sleep(600)


def grows():
    kept = []
    while True:
        kept.append(bytearray(os.urandom(2**20) * 64))


def dies():
    with open("died", "a") as file:
        file.write("x")
    os._exit(9)


def full():
    bytes(2**60)
"""
RELEASES = ["1.12.1", "2.13.0"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "models.py").write_text(MODELS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def key(name: str, phase: str = "inference") -> Key:
    return Key(f"models.py:{name}", "real", phase, "float32")


@pytest.mark.slow
def test_a_sweep_keeps_each_report_and_goes_on(folder: Path) -> None:
    (folder / "names.txt").write_text("models.py:sound\nmodels.py:raises\n")
    asked = ["--workloads", "names.txt", "--phase", "inference", "--torch", ",".join(RELEASES)]
    first = sweep(folder, *asked, "--jobs", "1")
    assert first.code == 0, first.stderr
    assert "atlas.sqlite: 1 of 2 rows have an answer" in first.stderr
    assert "'models.py:raises' raised LookupError: no weights here" in first.stderr
    again = sweep(folder, *asked)
    assert "2 of them were there before" in again.stderr
    with Store(folder / "atlas.sqlite") as store:
        assert store.about()["releases"] == RELEASES
        row = store.row(*key("sound"))
    assert row is not None and row.architecture == "Net" and row.attempts == 1 and row.answer is not None
    answers = unpack(row.answer)
    for release in RELEASES:
        workload = get_registry().workload("models.py:sound")
        report = CoverageScanner().scan(workload, RunOptions(), [release], SilentProgress())
        assert answers.report(release) == report.model_dump(mode="json")
    verdicts = {(one.operator, one.verdict): one.releases for one in answers.findings()}
    assert verdicts["aten::cumsum.out", "missing"] == ("1.12.1",)


@pytest.mark.slow
def test_one_that_hangs_grows_or_dies_costs_one_row(folder: Path) -> None:
    limits = Limits(seconds=20, memory=2**30)
    keys = [key(name) for name in ("hangs", "dies", "grows", "full", "sound")]
    rows = {row.workload: row for row in rows_of([(one, RELEASES) for one in keys], limits, jobs=2)}
    errors = {name.partition(":")[2]: (row.error, row.attempts) for name, row in rows.items()}
    assert errors["sound"] == (None, 1)
    assert errors["hangs"] == ("it took longer than 20 s", 1)
    assert errors["grows"] == ("it took more than 1 GB of memory", 1)
    assert errors["full"] == ("its process ran out of memory", 3)
    assert errors["dies"] == ("its process ended with exit code 9", 3)
    assert (folder / "died").read_text() == "xxx"


def test_what_is_there_is_not_asked_for_again(tmp_path: Path) -> None:
    plan = Plan(("bert-base", "gpt2", "resnet50"), ("inference",), ("float32",), "small", ("2.13.0",))
    keys, asked = plan.keys(get_registry()), []

    def rows(wanted: Sequence[Asked]) -> Generator[Row]:
        """Two of them; Ctrl-C or the end of the process takes what is behind."""
        asked.extend(key for key, _ in wanted)
        for one, releases in wanted[:2]:
            yield Row(*one, state="answered", made="now", answer=answer_of(releases))
        raise KeyboardInterrupt

    def sweep_into(**settings: bool) -> sweeping.Outcome:
        return sweeping.sweep_into(path, plan.about(), keys, rows, SilentProgress(), **settings)

    path = tmp_path / "atlas.sqlite"
    with WritableStore(path, plan.about()) as store:
        store.add(Row(*keys[1], state="failed"))
    outcome = sweep_into()
    assert asked == [keys[0], keys[2]] and outcome.known == 1 and outcome.answered == 2 and not outcome.complete
    asked.clear()
    sweep_into(again=True)
    assert asked == [keys[1]]


def answer_of(releases: Sequence[str], verdict: str = "native") -> bytes:
    operators = [{"operator": "aten::mm", "verdict": verdict}]
    return pack(
        {one: {"torch": one, "operators": operators} for one in releases}, {one: {"8": "fits"} for one in releases}
    )


def test_what_a_change_touches_is_worked_out_again_and_nothing_else(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, asked, verdict = rules.worked_out(), [], "native"
    now = now._replace(operators={"aten::mm": "a", "aten::cos": "b"})
    monkeypatch.setattr(sweeping, "stated", lambda: now)

    def rows(wanted: Sequence[Asked]) -> Generator[Row]:
        for one, releases in wanted:
            asked.append(tuple(releases))
            yield Row(*one, state="answered", answer=answer_of(releases, verdict))

    def sweep_with(found: rules.Rules, *releases: str) -> tuple[tuple[str, ...], ...]:
        monkeypatch.setattr(sweeping, "worked_out", lambda: found)
        asked.clear()
        plan = Plan(("models.py:sound",), ("inference",), ("float32",), "real", releases)
        sweeping.sweep_into("atlas.sqlite", plan.about(), [key("sound")], rows, SilentProgress())
        return tuple(asked)

    both = ("2.12.0", "2.13.0")
    assert sweep_with(now, *both) == (both,) and sweep_with(now, *both) == ()
    assert sweep_with(now._replace(operators={**now.operators, "aten::cos": "c"}), *both) == ()
    monkeypatch.setattr(sweeping, "stated", lambda: now._replace(code=("newer", *now.code)))
    assert sweep_with(now._replace(code=("newer",)), *both) == ()  # the same answers, as is stated
    verdict = "missing"
    assert sweep_with(now, "2.6.0", *both, "2.14.0") == (("2.6.0", "2.14.0"),)
    assert sweep_with(now._replace(releases={**now.releases, "2.12.0": "d"}), *both) == (("2.12.0",),)
    with Store("atlas.sqlite") as store:
        row = store.row(*key("sound"))
    assert row is not None and row.answer is not None
    answers = unpack(row.answer)
    assert answers.releases == ("2.6.0", "2.12.0", "2.13.0", "2.14.0") and [*answers.fits] == [*answers.releases]
    verdicts = [answers.report(one)["operators"][0]["verdict"] for one in answers.releases]
    assert verdicts == ["missing", "missing", "native", "missing"]
    for changed in (now._replace(code=("other",)), now._replace(operators={"aten::mm": "c"})):
        assert sweep_with(changed, *both) == (both,)
    (folder / "models.py").write_text(MODELS + "\n")
    assert sweep_with(now._replace(operators={"aten::mm": "c"}), *both) == (both,)


def test_what_a_plan_is_made_of() -> None:
    registry = get_registry()
    plan = Plan(("bert-base", "hf:bert"), ("inference", "training", "generate"), DTYPES, "small", ("2.13.0",))
    assert len(plan.keys(registry)) == 2 * 3 * 3
    assert {"torch", "transformers", "mpsprobe", "mpsprobe-atlas"} <= versions().keys()
    row = Row(*key("sound"), state="answered", answer=bytes(range(256)))
    assert from_text(as_text(row)) == row
    with pytest.raises(UsageError, match="nothing is to be done"):
        Plan((), ("inference",), ("float32",), "small", ()).keys(registry)


def sweep(folder: Path, *arguments: str) -> CommandResult:
    return run_cli("atlas", "sweep", *arguments, cwd=folder, process=False)


def test_bad_input(folder: Path) -> None:
    (folder / "digits.py").write_text("import keras\n\ndef make():\n    pass\n", encoding="utf-8")
    for arguments, error in (
        ([], "what should be swept?"),
        (["no-such-*"], "no workload fits 'no-such-*'"),
        (["bert-bas"], "unknown workload 'bert-bas'; did you mean 'bert-base'"),
        (["bert-base", "--phase", "infer"], "unknown phase 'infer'"),
        (["bert-base", "--torch", "99.0"], "unknown torch release '99.0'"),
        (["bert-base", "-o", "none/atlas.sqlite"], "its folder does not exist"),
        (["bert-base", "-o", "."], "it is a folder"),
        (["bert-base", "-o", "models.py"], "models.py is no atlas of mpsprobe"),
        (["bert-base", "keras:mobilenet_v2"], "'keras:mobilenet_v2' is a workload of tensorflow"),
        (["bert-base", "digits.py:make"], "'digits.py:make' is a workload of tensorflow"),
    ):
        result = sweep(folder, *arguments)
        assert result.code == 2 and error in result.stderr and "Traceback" not in result.stderr
        assert [one.name for one in folder.iterdir() if one.suffix == ".sqlite"] == []


def test_ctrl_c_says_what_is_there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = sweeping.Outcome(1, 2, (), 3.0, complete=False)
    monkeypatch.setattr("mpsprobe_atlas.commands.sweep.sweep_into", lambda *_, **__: outcome)
    result = sweep(folder, "bert-base")
    assert result.code == 130 and "2 of 2 rows have an answer" in result.stderr
