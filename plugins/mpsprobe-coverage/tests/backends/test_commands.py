"""``--backend`` of the commands, and what every format says about a backend that is not MPS."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from made_backend import BASIC, OWN, RELEASE, Made, Several

from mpsprobe.errors import MpsprobeError
from mpsprobe_coverage.commands.coverage import coverage
from mpsprobe_coverage.commands.kernels import kernels

OF_A_MAC = re.compile(r"\bMPS\b|PYTORCH_ENABLE_MPS|\bMac\b|macOS|\bmps\b", re.IGNORECASE)
MODEL = """
import torch


def make():
    return torch.nn.Linear(4, 3), (torch.ones(2, 4),)


def double():
    class Model(torch.nn.Module):
        def forward(self, x):
            return torch.linalg.svdvals(x).double().cumsum(0)

    return Model(), (torch.ones(2, 4),)
"""


@pytest.fixture
def model(tmp_path: Path) -> str:
    """A file of workloads."""
    (tmp_path / "model.py").write_text(MODEL, encoding="utf-8")
    return str(tmp_path / "model.py")


def run(command: Any, *arguments: str) -> Result:
    """The command's result; what it raises is raised."""
    return CliRunner().invoke(command, arguments, catch_exceptions=False)


def words(result: Result) -> Any:
    """Its JSON."""
    return json.loads(result.stdout)


@pytest.mark.parametrize("name", ["table", "markdown", "html", "junit", "csv"])
@pytest.mark.parametrize("whole", [True, False])
def test_no_format_speaks_of_a_mac(bring: Any, model: str, name: str, whole: bool) -> None:
    bring(Made(OWN, whole=whole, refused_dtypes={"float64": "the chip has none"}), "own-chip")
    result = run(coverage, f"{model}:double", "--backend", "own-chip", "--torch", RELEASE, "--format", name)
    assert result.exit_code == 0, result.output
    text = re.sub(r"<style.*?</style>|<script.*?</script>", "", result.stdout, flags=re.DOTALL)
    assert not OF_A_MAC.findall(text)
    assert ("Own chip" in text or name == "csv") and "unsupported" in text


def test_explain_does_not_either(bring: Any, model: str) -> None:
    bring(Made(OWN, [*BASIC, "aten::_copy_from"]), "own-chip")
    result = run(coverage, f"{model}:double", "--backend", "own-chip", "--explain")
    assert "the table of Own chip has it under PrivateUse1" in " ".join(result.stdout.split())
    assert not OF_A_MAC.findall(result.stdout)


def test_fail_on(bring: Any, model: str) -> None:
    bring(Made(OWN, [*BASIC, "aten::_copy_from"]), "own-chip")
    linear = ("--backend", "own-chip", "--torch", "all", "--fail-on", "missing,unsupported,unknown")
    assert run(coverage, f"{model}:make", *linear).exit_code == 0
    assert run(coverage, f"{model}:double", *linear).exit_code == 1


def test_kernels_list(bring: Any) -> None:
    bring(Made(OWN, ["aten::mm", "aten::bmm.out"], whole=False, notes=["Half of it"], fallback=["aten::linalg_svd"]))
    found = words(run(kernels, "list", "--backend", "made", "--format", "json"))
    assert (found["backend"], found["whole"], found["notes"]) == ("made", False, ["Half of it"])
    assert found["native"] == ["aten::bmm.out", "aten::mm"]
    assert found["fallback"] == ["aten::linalg_svd"]
    assert found["by_key"] == {"PrivateUse1": ["aten::bmm.out", "aten::mm"]}
    text = run(kernels, "list", "--backend", "made").stdout
    assert "a list in a test (mpsprobe-made 1.0)" in text and "Half of it" in text and "does not hold" in text
    assert "macOS" not in run(kernels, "list", "--backend", "made", "--torch", "all").stdout


def test_kernels_show_and_since(bring: Any) -> None:
    bring(Made(OWN, {"PrivateUse1": ["aten::mm", "own::thing"], "SparsePrivateUse1": ["aten::bmm.out"]}))
    made = ("--backend", "made", "--format", "json")
    shown = words(run(kernels, "show", "mm.out", "torch.ops.aten.mm.default", "own::thing", *made))
    assert [(one["operator"], one["verdict"]) for one in shown] == [
        ("aten::mm.out", "missing"), ("aten::mm", "native"), ("own::thing", "native"),
    ]  # fmt: skip
    [sparse] = words(run(kernels, "show", "bmm.out", "--key", "SparsePrivateUse1", *made))
    assert (sparse["verdict"], sparse["key"]) == ("native", "SparsePrivateUse1")
    assert words(run(kernels, "since", "aten::mm.default", *made))[0]["native_since"] == RELEASE


def test_kernels_diff(bring: Any) -> None:
    bring(Several(OWN, {"2.9.1": ["aten::mm", "aten::mv"], "2.13.0": ["aten::mm", "aten::dot"]}))
    found = words(run(kernels, "diff", "2.13", "2.9", "--backend", "made", "--format", "json"))
    assert found["gained"] == ["aten::mv"] and found["by_key"] == {}


def test_wrong_use(bring: Any) -> None:
    bring(Made(OWN))
    for arguments, problem in (
        ("list --backend made --library torchvision", "all libraries"),
        ("list --backend nade", "did you mean 'made'"),
        ("show mm --backend made --key MPS", "unknown dispatch key 'MPS'"),
        ("list --backend made --torch 1.12", r"unknown torch release '1\.12'"),
    ):
        with pytest.raises(MpsprobeError, match=problem):
            run(kernels, *arguments.split())
