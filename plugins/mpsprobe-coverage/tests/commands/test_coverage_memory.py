"""``coverage --chip`` and ``--memory``: whether a workload fits, and what PyTorch says where it does not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mpsprobe_devkit.testing import run_cli

LARGE = ["--phase", "training", "--batch-size", "24"]
"""It needs 4.1 GB on any release."""


def fit(*arguments: str) -> tuple[dict[str, Any], int]:
    """``memory.fit`` of ``coverage bert-base`` with ``arguments``, and the exit code."""
    result = run_cli("coverage", "bert-base", "--torch", "2.13.0", "--format", "json", *arguments, process=False)
    return json.loads(result.stdout)["memory"]["fit"], result.code


def test_fits_with_a_margin_at_both_ends() -> None:
    found, _ = fit("--chip", "m2-pro-16gb")
    assert (found["machine"], found["answer"], found["basis"]) == ("m2-pro-16gb", "fits", "published")
    low, high = found["low"], found["high"]
    assert low["recommended_bytes"] < high["recommended_bytes"] and low["margin_bytes"] < high["margin_bytes"]
    assert low["allowed_bytes"] == int(1.7 * low["recommended_bytes"])
    assert low["collects_bytes"] == int(1.4 * low["recommended_bytes"]) and found["sources"]


@pytest.mark.parametrize(("memory", "answer"), [("1GB", "raises"), ("5GB", "pressure"), ("16GB", "fits")])
def test_what_becomes_of_a_training_depends_on_the_memory(memory: str, answer: str) -> None:
    found, code = fit(*LARGE, "--memory", memory, "--fail-on", "memory")
    assert found["answer"] == answer and code == (answer == "raises")


def test_where_only_one_of_the_published_figures_is_enough_it_is_unclear_and_no_failure() -> None:
    found, code = fit("--phase", "training", "--batch-size", "164", "--memory", "16GB", "--fail-on", "memory")
    assert found["answer"] == "unclear" and code == 0
    assert found["low"]["answer"] == "raises" and found["high"]["answer"] != "raises"


def test_the_message_is_pytorchs_with_the_call_at_which_it_raises() -> None:
    found, _ = fit(*LARGE, "--memory", "2.5GB")
    low = found["low"]
    assert low["message"].startswith("MPS backend out of memory (MPS allocated: ")
    assert f"max allowed: {low['allowed_bytes'] / 2**30:.2f} GiB" in low["message"]
    assert low["operator"].startswith("aten::") and low["module"] and ".py:" in low["call_site"]
    assert low["first_step"] and low["margin_bytes"] < 0


def test_parameters_alone_are_too_much() -> None:
    found, _ = fit("--memory", "200MB")
    assert [found["low"][name] for name in ("refused", "phase", "operator")] == ["parameters", None, None]
    shown = run_cli("coverage", "bert-base", "--torch", "2.13.0", "--memory", "200MB", process=False).stdout
    assert "Does not fit on a Mac with" in shown and "its parameters alone 437.9 MB" in " ".join(shown.split())


def test_a_watermark_of_zero_is_no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTORCH_MPS_HIGH_WATERMARK_RATIO", "0.0")
    found, _ = fit(*LARGE, "--memory", "1GB")
    assert found["answer"] == "pressure" and found["low"]["allowed_bytes"] is None


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--chip", "m2-por-16gb"], "m2-pro-16gb"),
        (["--memory", "16"], "no size of memory"),
        (["--chip", "m2-pro-16gb", "--memory", "32GB"], "another memory"),
        (["--chip", "m2-pro", "--fail-on", "memory"], "needs the memory of a Mac"),
        (["--allocations", "--torch", "2.12,2.13"], "one workload on one torch release"),
    ],
)
def test_bad_input(arguments: list[str], said: str) -> None:
    result = run_cli("coverage", "bert-base", *arguments, process=False)
    assert result.code == 2 and said in result.stderr


def test_a_format_that_shows_allocations_asks_for_them(tmp_path: Path) -> None:
    report, shown = tmp_path / "report.json", tmp_path / "step.pickle"
    small = ["coverage", "bert-base", "--size", "small", "--torch", "2.13.0", "-o", str(report)]
    run_cli(*small, "--export", f"memory-viz={shown}", process=False)
    assert json.loads(report.read_text("utf-8"))["memory"]["allocations"]["storages"]
    again = tmp_path / "again.pickle"
    run_cli("export", str(report), "--to", "memory-viz", "-o", str(again), process=False)
    assert again.read_bytes() == shown.read_bytes()
