"""The ranking counts architectures, and what each release gained."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from mpsprobe_atlas.ranking import gained, gather, ranked
from mpsprobe_atlas.reading import Judged, Run
from mpsprobe_atlas.store import Row
from mpsprobe_devkit.testing import CommandResult, run_cli

RELEASES = ["2.0.0", "2.1.0", "2.2.0"]


def row(name: str, phase: str, *verdicts: Mapping[str, str], failure: str | None = None) -> Judged:
    runs = {release: Run(one, failure=failure) for release, one in zip(RELEASES, verdicts, strict=True)}
    return Judged(Row(name, "real", phase, "float32", "answered"), name.partition("/")[0], runs)


QR, CTC = {"aten::qr": "missing"}, {"aten::ctc": "unsupported"}
ROWS = [
    row("hf:bert", "inference", QR, QR, {}),
    row("hf:bert/BertForMaskedLM", "training", QR, QR, {}),
    row("hf:t5", "inference", {**QR, **CTC}, CTC, {}),
    row("hf:t5", "training", {}, {}, {"aten::new": "missing"}),
    row("hf:gpt", "inference", {"aten::svd": "fallback"}, {}, {}),
    row("hf:end", "inference", {}, {}, {}, failure="ValueError: no"),
]


def test_heads_and_phases_of_an_architecture_count_once() -> None:
    first, second = ranked(gather(ROWS, RELEASES), "2.0.0")
    assert (first.operator, first.architectures, first.alone) == ("aten::qr", ["hf:bert", "hf:t5"], ["hf:bert"])
    assert (first.phases, first.verdict, first.native_since) == (["inference", "training"], "missing", "2.2.0")
    assert (second.operator, second.architectures, second.alone) == ("aten::ctc", ["hf:t5"], [])


def test_a_phase_alone() -> None:
    found = ranked(gather(ROWS, RELEASES, ["training"]), "2.2.0")
    assert [(one.operator, one.architectures, one.native_since) for one in found] == [("aten::new", ["hf:t5"], None)]


def test_what_runs_on_the_cpu_blocks_nobody() -> None:
    found = gather(ROWS, RELEASES)
    assert [one.operator for one in ranked(found, "2.0.0", ("fallback",))] == ["aten::svd"]
    assert "aten::svd" not in {one.operator for one in ranked(found, "2.0.0")}


def test_what_each_release_gained() -> None:
    newest, middle, oldest = gained(gather(ROWS, RELEASES))
    assert (oldest.clean, oldest.blocked, oldest.operators, oldest.architectures) == (0, 2, [], [])
    assert (middle.clean, middle.blocked) == (1, 2)  # gpt; one that stops is neither
    assert (newest.clean, newest.blocked) == (2, 1)
    assert (newest.operators, newest.architectures, newest.lost) == (["aten::ctc", "aten::qr"], ["hf:bert"], [])


def rank(store: Path, *arguments: str) -> CommandResult:
    return run_cli("atlas", "rank", "--store", str(store), *arguments, process=False)


def test_of_a_real_sweep(real: Path) -> None:
    result = rank(real, "--torch", "2.6", "--format", "json")
    assert result.code == 0, result.stderr
    report = json.loads(result.stdout)
    assert report["torch"] == "2.6.0" and report["architectures"] == 2
    assert {one["operator"]: one["native_since"] for one in report["operators"]} == {
        "aten::_ctc_loss": "2.15.0",
        "aten::_ctc_loss_backward": "2.15.0",
    }
    assert [one["torch"] for one in report["releases"]] == ["2.15.0", "2.6.0", "2.0.1"]
    assert report["releases"][0]["architectures"] == ["hf:wav2vec2/Wav2Vec2ForCTC"]


@pytest.mark.thorough
def test_six_hundred_models_on_forty_releases(large: Path) -> None:
    result = rank(large)
    assert result.code == 0 and result.stdout.startswith("On torch 2.23.0, ")


def test_what_cannot_be_ranked(real: Path) -> None:
    for arguments, problem in (
        (("--torch", "2.99"), "unknown torch release '2.99'"),
        (("--phase", "trainin"), "did you mean 'training'"),
        (("--format", "junit"), "reads coverage"),
    ):
        result = rank(real, *arguments)
        assert result.code == 2 and problem in result.stderr
