"""``mpsprobe kernels list | show | since | diff``, as a user runs them."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from typing import Any

import pytest

from mpsprobe_coverage.commands import kernels_output
from mpsprobe_coverage.knowledge.kernels.mps import load_table
from mpsprobe_coverage.knowledge.kernels.releases import torch_releases
from mpsprobe_devkit.testing.commands import command_environment, command_path, run_cli


def _json(*arguments: str) -> Any:
    return run_cli("kernels", *arguments, "--format", "json", process=False).json()


def _text(*arguments: str) -> str:
    result = run_cli("kernels", *arguments, process=False)
    assert result.code == 0
    return result.stdout


def test_list() -> None:
    document = _json("list", "--torch", "2.13.0")
    table = load_table("2.13.0")
    assert document["torch"] == "2.13.0"
    assert document["native"] == sorted(table.native)
    assert document["fallback"] == ["aten::embedding_renorm_", "aten::linalg_svd", "aten::linalg_svd.U"]
    assert document["error"] == ["aten::_slow_conv2d_forward"]
    assert document["python"] == ["aten::linalg_lu_solve.out"]
    assert set(document["by_key"]) == {"AutocastMPS", "MPS", "SparseCsrMPS", "SparseMPS"}
    assert (document["wheel"], document["sha256"]) == (table.wheel, table.sha256)
    assert (document["macos_minimum"], document["commit"]) == ("14.0", table.commit)
    assert _json("list")["torch"] == metadata.version("torch").partition("+")[0]


def test_list_of_one_key_and_of_torchvision() -> None:
    sparse = ("list", "--torch", "2.13.0", "--key", "SparseMPS")
    document = _json(*sparse)
    assert list(document["by_key"]) == ["SparseMPS"]
    assert set(document["native"]) <= set(document["by_key"]["SparseMPS"])
    assert "aten::_coalesce" in _text(*sparse)
    document = _json("list", "--torch", "2.13.0", "--library", "torchvision")
    assert (document["torch"], document["library"], document["release"]) == ("2.13.0", "torchvision", "0.28.0")
    assert "torchvision::nms" in document["native"]


def test_list_of_all_releases() -> None:
    assert [document["torch"] for document in _json("list", "--torch", "all")] == list(torch_releases())
    lines = _text("list", "--torch", "all").splitlines()
    heads = "torch macOS native Python fallback raises Autocast SparseCsr Sparse"
    assert lines[0].split() == heads.split()
    assert [line.split()[0] for line in lines[2:]] == list(torch_releases())
    assert lines[2].split()[2] == "429"


def test_show() -> None:
    [row] = _json("show", "aten::linalg_qr.out", "--torch", "2.11.0")
    expected = {"operator": "aten::linalg_qr.out", "torch": "2.11.0", "verdict": "missing", "native_since": "2.12.0"}
    assert row == {**expected, "removed_in": None, "key": "MPS"}
    rows = _json("show", "aten::linalg_qr.out", "linalg_svd.U", "--torch", "all")
    assert [row["torch"] for row in rows] == [*torch_releases(), *torch_releases()]
    assert {row["operator"] for row in rows} == {"aten::linalg_qr.out", "aten::linalg_svd.U"}
    lines = [line.split() for line in _text("show", "linalg_svd.U").splitlines()[2:]]
    assert lines == [["aten::linalg_svd.U", "fallback", "1.12.0", "to", "2.13.0"], ["composite", "from", "2.14.0"]]


def test_show_some_releases_another_library_and_another_key() -> None:
    rows = _json("show", "nms", "--torch", "2.6.0,latest")
    assert [(row["operator"], row["verdict"], row["torch"]) for row in rows] == [
        ("torchvision::nms", "native", release) for release in ("2.6.0", torch_releases()[-1])
    ]
    [row] = _json("show", "aten::_coalesce.default", "--torch", "latest", "--key", "SparseMPS")
    assert row["verdict"] == "native"


def test_since() -> None:
    rows = _json("since", "aten::linalg_qr.out", "abs.default", "_mps_max_pool2d.default")
    assert [row["native_since"] for row in rows] == ["2.12.0", "1.12.0", None]
    assert [row["removed_in"] for row in rows] == [None, None, "2.0.0"]
    assert "gone since 2.0.0" in _text("since", "_mps_max_pool2d")


def test_a_terminal_too_narrow_for_a_name_folds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    long = "aten::_scaled_dot_product_flash_attention_for_cpu_backward"
    monkeypatch.setattr(kernels_output, "PIPE_WIDTH", 60)
    lines = _text("since", long, "linalg_qr.out").splitlines()
    [first, rest, short] = [line.split() for line in lines[-3:]]
    assert (first[0] + rest[0], *first[1:]) == (long, "-", "missing")
    assert short == ["aten::linalg_qr.out", "2.12.0", "native"]
    assert max(map(len, lines)) <= 60


def test_names_stand_side_by_side_on_a_screen_and_one_a_line_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    line = ("list", "--torch", "2.13.0", "--library", "torchvision")
    names = [one for one in _text(*line).splitlines() if "torchvision::" in one]
    assert len(names) == 10 and all(len(one.split()) == 1 for one in names)
    monkeypatch.setattr(kernels_output, "PIPE_WIDTH", 120)
    rows = [one.split() for one in _text(*line).splitlines() if "torchvision::" in one]
    assert [len(one) for one in rows] == [3, 3, 2, 2]
    assert [one[0] for one in rows] == [one.strip() for one in names[:4]]


def test_diff() -> None:
    document = _json("diff", "2.11", "2.12.0")
    assert (document["from"], document["to"]) == ("2.11.0", "2.12.0")
    assert "aten::linalg_qr.out" in document["gained"]
    text = _text("diff", "2.14.0", "2.15.0")
    assert "macOS needed: 14.0 → 15.0" in text
    assert ["aten::take.out", "missing", "native"] in [line.split() for line in text.splitlines()]
    assert "no difference" in _text("diff", "latest", torch_releases()[-1])


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("show abss", "unknown operator 'abss'; did you mean 'abs' or 'abs_'?"),
        ("show abs --torch 1.11", "torch 1.11 has no MPS backend"),
        ("show abs --torch 2.99", "unknown torch release '2.99'"),
        ("show abs --key CUDA", "'CUDA'"),
        ("list --torch yesterday", "unknown torch release 'yesterday'"),
        ("list --key MSP", "'MSP'"),
        ("list --torch 2.13.0 --format yaml", "'yaml'"),
        ("since nothing_like_it_at_all", "unknown operator 'nothing_like_it_at_all'"),
        ("diff 2.13.0 2.13.99", "unknown torch release '2.13.99'"),
    ],
)
def test_wrong_names_are_told(line: str, said: str) -> None:
    result = run_cli("kernels", *line.split(), process=False)
    assert (result.code, result.stdout) == (2, "")
    first, *hint = result.stderr.splitlines()
    assert first.startswith("Error: ") and said in first and hint, result.stderr


def test_nothing_heavy_is_imported_for_an_answer() -> None:
    code = (
        "import sys; from mpsprobe.cli.main import main;"
        "code = main(['kernels', 'show', 'aten::linalg_qr.out', '--torch', 'all']);"
        "heavy = sorted({'torch', 'pydantic', 'transformers', 'lief', 'capstone'} & set(sys.modules));"
        "print(code, heavy, main(['advisories']), 'torch' in sys.modules, file=sys.stderr)"
    )
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert finished.stderr.strip() == "0 [] 0 False"
    assert "from 2.12.0" in finished.stdout


def test_a_reader_that_goes_away_hears_nothing() -> None:
    command = [command_path(), "kernels", "list", "--torch", "2.13.0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=command_environment())
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    with process:
        assert process.stderr.read() == b""
    assert process.returncode == 141
