"""The texts that one takes from an operator's page: samples that run, and words for PyTorch's tracker."""

from __future__ import annotations

from pathlib import Path

from made_store import VERSIONS

from mpsprobe_atlas.operators import operators, samples_of, tracker_text
from mpsprobe_atlas.ranking import gather
from mpsprobe_atlas.reading import Judged
from mpsprobe_atlas.samples import Example, sample_file
from tests.forking import run_script

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
