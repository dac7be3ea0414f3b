"""``mpsprobe advisories``, and what ``mpsprobe coverage`` does with a known wrong result."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mpsprobe_coverage.advisories.store import all_advisories
from mpsprobe_devkit.testing import run_cli
from mpsprobe_devkit.testing.commands import command_environment

MODELS = """
import torch


class Attention(torch.nn.Module):
    def __init__(self, causal):
        super().__init__()
        self.inner = torch.nn.Linear(8, 8)
        self.causal = causal

    def forward(self, x):
        x = self.inner(x)[None]
        return torch.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=self.causal)


def causal():
    return Attention(True), torch.ones(4, 17, 8)


def both_ways():
    return Attention(False), torch.ones(4, 17, 8)
"""
HALF = ("--dtype", "float16")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with ``models.py``, the current one of the command."""
    (tmp_path / "models.py").write_text(MODELS, encoding="utf-8")
    return tmp_path


def test_all_are_listed_with_their_releases() -> None:
    result = run_cli("advisories", "list", process=False)
    assert result.code == 0 and result.stderr == ""
    for one in all_advisories():
        assert one.id in result.stdout and one.title in " ".join(result.stdout.split())
    assert f"{len(all_advisories())} known wrong results" in result.stdout


def test_those_of_a_release_and_an_operator() -> None:
    arguments = ("advisories", "list", "--torch", "2.10.0", "--operator", "scaled_dot_product_attention")
    found = {one["id"] for one in run_cli(*arguments, "--format", "json", process=False).json()}
    assert {"attention-causal-half", "attention-two-pass-bounds", "attention-short-permuted"} == found
    assert run_cli("advisories", "list", "--operator", "tanh", process=False).stdout.strip() == "no known wrong result"


def test_the_bare_group_lists_and_has_its_own_help() -> None:
    flags = ("--operator", "conv2d", "--format", "json")
    listed = run_cli("advisories", "list", *flags, process=False).json()
    assert listed and run_cli("advisories", *flags, process=False).json() == listed
    assert "Commands:" in run_cli("advisories", "-h", process=False).stdout
    assert "did you mean 'advisories list'" in run_cli("advisories", "lits", process=False).stderr
    assert run_cli("advisories", "list", "--operator", "tanh", "--format", "json", process=False).json() == []


def test_a_release_hears_of_the_macos_that_it_runs_on() -> None:
    def found(release: str) -> set[str]:
        return {
            one["id"]
            for one in run_cli("advisories", "list", "--torch", release, "--format", "json", process=False).json()
        }

    assert "linear-macos-13-2" in found("2.0.0") and "linear-macos-13-2" not in found("2.13.0")


def test_one_is_shown_whole() -> None:
    result = run_cli("advisories", "show", "attention-causal-half", "cumsum-bool", process=False)
    shown = " ".join(result.stdout.split())
    for advisory in all_advisories():
        if advisory.id in ("attention-causal-half", "cumsum-bool"):
            for text in (advisory.title, advisory.symptom, advisory.workaround, advisory.basis, *advisory.sources):
                assert text in shown
    [document] = run_cli("advisories", "show", "cumsum-bool", "--format", "json", process=False).json()
    assert document["torch"]["fixed"] == "2.4.0" and document["operators"] == ["aten::cumsum", "aten::cumsum.out"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("show", "attention-casual-half"), "attention-causal-half"),
        (("show", "x" * 5000), "mpsprobe advisories list"),
        (("list", "--operator", "scaled_dot_product_atention"), "scaled_dot_product_attention"),
        (("list", "--torch", "2.99.0"), "2.9.0"),
        (("list", "--format", "jsn"), "json"),
        (("shwo",), "show"),
    ],
)
def test_errors_name_what_is_near(arguments: tuple[str, ...], said: str) -> None:
    result = run_cli("advisories", *arguments, process=False)
    assert result.code == 2 and result.stdout == ""
    assert said in result.stderr and "Traceback" not in result.stderr


@pytest.mark.parametrize("columns", [80, 120])
def test_no_line_is_wider_than_the_pipe(columns: int) -> None:
    script = (
        "import sys; from mpsprobe_coverage.commands import advisories_output as o; "
        f"o.PIPE_WIDTH = {columns}; from mpsprobe_coverage.advisories.store import all_advisories as a; "
        "o.print_list(list(a())); o.print_details(list(a())); assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", script], env=command_environment(), capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.decode().splitlines()
    assert len(lines) > 200 and max(map(len, lines)) <= columns


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("models.py:causal", *HALF, "--torch", "2.12.1", "--fail-on", "advisory"), 1),
        (("models.py:causal", *HALF, "--torch", "2.12.1", "--fail-on", "missing,advisory"), 1),
        (("models.py:causal", *HALF, "--torch", "2.12.1", "--fail-on", "missing"), 0),
        (("models.py:causal", *HALF, "--torch", "2.12.1"), 0),
        (("models.py:causal", *HALF, "--torch", "2.13.0", "--fail-on", "advisory"), 0),
        (("models.py:causal", "--torch", "2.12.1", "--fail-on", "advisory"), 0),
        (("models.py:both_ways", *HALF, "--torch", "2.12.1", "--fail-on", "advisory"), 0),
        (("models.py:causal", *HALF, "--torch", "2.12.1,2.13.0", "--fail-on", "advisory"), 1),
    ],
)
def test_a_build_can_fail_for_it(folder: Path, arguments: tuple[str, ...], code: int) -> None:
    result = run_cli("coverage", *arguments, cwd=folder, process=False)
    assert result.code == code, result.stderr
    assert ("attention-causal-half" in result.stdout) == ("2.12.1" in arguments[4] and "causal" in arguments[0] and
        "--dtype" in arguments)  # fmt: skip


def test_the_report_says_where(folder: Path) -> None:
    arguments = ("coverage", "models.py:causal", *HALF, "--torch", "2.11.0,2.12.1,2.13.0", "-o", "report.json")
    assert run_cli(*arguments, cwd=folder, process=False).code == 0
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    [match] = report["advisories"]
    assert match["id"] == "attention-causal-half" and match["calls"] == 1 and match["modules"] == ["(model)"]
    assert match["call_sites"][0].endswith("models.py:13") and match["torch"]["fixed"] == "2.13.0"
    assert [cell["advisories"] for cell in report["releases"]] == [[match["id"]], [match["id"]], []]
    assert [cell["summary"]["advisories"] for cell in report["releases"]] == [1, 1, 0]
