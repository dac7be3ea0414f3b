"""The ranking counts architectures, and what each release gained; the texts of an operator's page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from made_store import VERSIONS

from mpsprobe.declarations import OperatorRewrite
from mpsprobe_atlas.ranking import gained, gather, operators, ranked, rewritten, samples_of, tracker_text
from mpsprobe_atlas.reading import Judged, Run
from mpsprobe_atlas.samples import Example, sample_file
from mpsprobe_atlas.store import Row
from mpsprobe_devkit.testing import CommandResult, run_cli
from tests.forking import run_script

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


def test_which_rewrite_frees_whom() -> None:
    rewrites = [OperatorRewrite(name, (f"aten::{name}", "aten::other"), "a tool") for name in ("ctc", "qr", "svd")]
    rows, freed = rewritten(gather(ROWS, RELEASES), "2.0.0", rewrites)
    assert [(one.name, one.operators, one.architectures, one.alone) for one in rows] == [
        ("qr", ["aten::qr"], ["hf:bert", "hf:t5"], ["hf:bert"]),
        ("ctc", ["aten::ctc"], ["hf:t5"], []),
    ]
    assert freed == 2


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
    report = rank(real, "--torch", "2.6", "--format", "json").json()
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


QR = "tensor((4, 3), (1, 4), torch.float32), 'reduced'"
EMPTY, HALF = "tensor((0,), (1,), torch.float32)", "tensor((2, 3), (3, 1), torch.bfloat16)"
CALLS = (
    f"torch.ops.aten.linalg_qr.out({QR}, Q={EMPTY}, R={EMPTY})",
    "torch.ops.aten.linalg_cholesky_ex.default(tensor((2, 4, 4), (16, 4, 1), torch.float32), check_errors=True)",
    f"torch.ops.aten.cat.default([{HALF}, tensor((0, 3), (3, 1), torch.bfloat16)], -2)",
    "torch.ops.aten.embedding.default(tensor((5, 3), (3, 1), torch.float32), tensor((2, 2), (2, 1), torch.int64), -1)",
    "torch.ops.aten.add_.Tensor(tensor((2,), (1,), torch.complex64), tensor((2,), (0,), torch.complex64), alpha=2)",
    "torch.ops.aten._to_copy.default(tensor((2,), (1,), torch.float32), dtype=torch.float16, device=device)",
    "torch.ops.aten.mm.default(tensor((3, 3), (3, 1), torch.float32, layout=torch.sparse_coo), "
    "tensor((3, 2), (1, 3), torch.float32))",
    "torch.ops.aten.clamp.default(tensor((2,), (1,), torch.float32), float('-inf'), 1.0)",
)


def ran(text: str, folder: Path) -> str:
    path = folder / "samples.py"
    path.write_text(text, encoding="utf-8")
    done = run_script(path, "cpu")
    assert done.code == 0, done.stderr
    return str(done.stdout)


def test_samples_of_a_real_sweep_run(real_rows: list[Judged], tmp_path: Path) -> None:
    found = operators(real_rows)
    assert {"aten::_ctc_loss", "aten::_weight_norm_interface"} <= found.keys()
    for operator in found.values():
        text = samples_of(operator, VERSIONS)
        assert f'"""{operator.name}: calls that models make' in text and "hf:wav2vec2" in text
        assert ran(text, tmp_path) == f"{len(operator.examples)} calls\n"


def test_every_kind_of_argument_can_be_made_again(tmp_path: Path) -> None:
    text = sample_file("aten::many", [Example(call, ["hf:bert"]) for call in CALLS], "0.1.0", "torch 2.13.0")
    assert ran(text, tmp_path) == f"{len(CALLS)} calls\n"


def test_a_call_that_mpsprobe_did_not_write_is_no_sample() -> None:
    for call in (
        "__import__('os').system('true')",
        "torch.ops.aten.abs.default(__import__('os'))",
        "torch.ops.aten.abs.default(tensor((1,), (1,), torch.float32), *[1])",
        "torch.hub.load.x.y(tensor((1,), (1,), torch.float32))",
        "torch.ops.aten.abs.default(open('x'))",
        "torch.ops.aten.abs.default(lambda: 1)",
        "not python",
        "(" * 5000,
    ):
        assert sample_file("aten::abs", [Example(call, ["x"])], "0.1.0", "torch") == "", call


def test_names_of_a_store_end_no_comment_and_no_string() -> None:
    hostile = 'x"""\nimport os\n'
    text = sample_file(hostile, [Example(CALLS[1], [hostile])], hostile, hostile)
    compile(text, "samples.py", "exec")
    assert "\nimport os" not in text


def test_the_words_for_the_tracker(real_rows: list[Judged]) -> None:
    found, met = operators(real_rows), gather(real_rows, ["2.0.1", "2.6.0"])
    text = tracker_text(found["aten::_ctc_loss"], met, VERSIONS)
    assert "Not implemented on MPS in torch 2.6.0: 1 of 2 architectures cannot run without it." in text
    assert "| 2.0.1 to 2.6.0 | missing |" in text and "`hf:wav2vec2/Wav2Vec2ForCTC`" in text
    assert "torch.ops.aten._ctc_loss" in text and "mpsprobe 0.1.0, torch 2.13.0, transformers 5.23.0" in text
    newer = tracker_text(found["aten::_ctc_loss"], gather(real_rows, ["2.0.1", "2.6.0", "2.15.0"]), VERSIONS)
    assert "Runs on MPS in torch 2.15.0; the last release that did not run it is 2.6.0." in newer
