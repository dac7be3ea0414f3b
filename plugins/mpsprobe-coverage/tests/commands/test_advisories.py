"""``mpsprobe advisories``, and what ``mpsprobe coverage`` does with a known wrong result."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mpsprobe_coverage.commands import advisories_output
from mpsprobe_coverage.knowledge.advisories.store import all_advisories
from mpsprobe_devkit.testing import run_cli

CAUSAL = "attention-causal-half"
HALF = ("--dtype", "float16")


def _json(*arguments: str) -> Any:
    return run_cli("advisories", *arguments, "--format", "json", process=False).json()


def _ids(*arguments: str) -> set[str]:
    return {one["id"] for one in _json("list", *arguments)}


def test_all_are_listed_with_their_releases() -> None:
    result = run_cli("advisories", "list", process=False)
    assert result.code == 0 and result.stderr == ""
    for one in all_advisories():
        assert one.id in result.stdout and one.title in " ".join(result.stdout.split())
    assert f"{len(all_advisories())} known wrong results" in result.stdout


def test_those_of_a_release_and_an_operator() -> None:
    found = _ids("--torch", "2.10.0", "--operator", "scaled_dot_product_attention")
    assert {CAUSAL, "attention-two-pass-bounds", "attention-short-permuted"} <= found
    found = _ids("--torch", "2.9.1", "--operator", "scaled_dot_product_attention")
    assert "attention-masked-row" in found  # seen on 2.9.0, and the code is the same until 2.9.1
    none = run_cli("advisories", "list", "--operator", "logaddexp", process=False)
    assert none.stdout.strip() == "no known wrong result"
    assert _json("list", "--operator", "logaddexp") == []
    # of a macOS that the one release runs on, and the other does not
    assert "linear-macos-13-2" in _ids("--torch", "2.0.0") and "linear-macos-13-2" not in _ids("--torch", "2.13.0")


def test_the_bare_group_lists_and_has_its_own_help() -> None:
    listed = _json("list", "--operator", "conv2d")
    assert listed and _json("--operator", "conv2d") == listed
    assert "Commands:" in run_cli("advisories", "-h", process=False).stdout
    assert "did you mean 'advisories list'" in run_cli("advisories", "lits", process=False).stderr


def test_one_is_shown_whole() -> None:
    shown = " ".join(run_cli("advisories", "show", CAUSAL, "cumsum-bool", process=False).stdout.split())
    for advisory in all_advisories():
        if advisory.id in (CAUSAL, "cumsum-bool"):
            for text in (advisory.title, advisory.symptom, advisory.workaround, advisory.basis, *advisory.sources):
                assert text in shown
    [document] = _json("show", "cumsum-bool")
    assert document["torch"]["fixed"] == "2.4.0" and document["operators"] == ["aten::cumsum", "aten::cumsum.out"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("show", "attention-casual-half"), CAUSAL),
        (("show", "x" * 5000), "mpsprobe advisories list"),
        (("list", "--operator", "scaled_dot_product_atention"), "scaled_dot_product_attention"),
        (("list", "--torch", "2.99.0"), "2.9.0"),
        (("list", "--format", "jsn"), "json"),
    ],
)
def test_errors_name_what_is_near(arguments: tuple[str, ...], said: str) -> None:
    result = run_cli("advisories", *arguments, process=False)
    assert result.code == 2 and result.stdout == ""
    assert said in result.stderr and "Traceback" not in result.stderr


@pytest.mark.parametrize("columns", [80, 120])
def test_no_line_is_wider_than_the_pipe(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(advisories_output, "PIPE_WIDTH", columns)
    advisories_output.print_list([*all_advisories()])
    advisories_output.print_details([*all_advisories()])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 200 and max(map(len, lines)) <= columns


@pytest.mark.parametrize(
    ("torch", "gate", "code"),
    [("2.12.1", "missing,advisory", 1), ("2.12.1", "missing", 0), ("2.13.0", "advisory", 0)],
)
def test_a_build_can_fail_for_it(folder: Path, torch: str, gate: str, code: int) -> None:
    arguments = (*HALF, "--torch", torch, "--fail-on", gate)
    result = run_cli("coverage", "models.py:causal", *arguments, cwd=folder, process=False)
    assert result.code == code, result.stderr
    assert (CAUSAL in result.stdout) == (torch == "2.12.1")


def test_the_report_says_where(folder: Path) -> None:
    arguments = (*HALF, "--torch", "2.11.0,2.12.1,2.13.0", "--fail-on", "advisory", "-o", "report.json")
    assert run_cli("coverage", "models.py:causal", *arguments, cwd=folder, process=False).code == 1
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    [match] = report["advisories"]
    assert match["id"] == CAUSAL and match["calls"] == 1 and match["modules"] == ["(model)"]
    assert match["call_sites"][0].endswith("models.py:73") and match["torch"]["fixed"] == "2.13.0"
    assert [cell["advisories"] for cell in report["releases"]] == [[CAUSAL], [CAUSAL], []]
    assert [cell["summary"]["advisories"] for cell in report["releases"]] == [1, 1, 0]
