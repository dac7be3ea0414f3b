"""``coverage --chip`` and ``--memory``: whether a workload fits, and what PyTorch says where it does not; ``chips``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mpsprobe_coverage.chips.store import all_chips
from mpsprobe_devkit.testing import run_cli

SMALL = ["bert-base", "--size", "small", "--torch", "2.13.0"]
LARGE = ["--phase", "training", "--batch-size", "54"]
"""It takes 2.2 GB."""


def fit(*arguments: str) -> tuple[dict[str, Any], int]:
    """``memory.fit`` of ``coverage bert-base`` with ``arguments``, and the exit code."""
    result = run_cli("coverage", *SMALL, "--format", "json", "--fail-on", "memory", *arguments, process=False)
    return json.loads(result.stdout)["memory"]["fit"], result.code


def test_fits_with_a_margin_at_both_ends() -> None:
    found, code = fit("--chip", "m2-pro-16gb")
    assert (found["machine"], found["answer"], found["basis"], code) == ("m2-pro-16gb", "fits", "published", 0)
    low, high = found["low"], found["high"]
    assert low["recommended_bytes"] < high["recommended_bytes"] and low["margin_bytes"] < high["margin_bytes"]
    assert low["allowed_bytes"] == int(1.7 * low["recommended_bytes"])
    assert low["collects_bytes"] == int(1.4 * low["recommended_bytes"]) and found["sources"]


def test_what_becomes_of_a_training_depends_on_the_memory() -> None:
    answers = [(fit(*LARGE, "--memory", memory)[0]["answer"]) for memory in ("2GB", "16GB")]
    assert answers == ["pressure", "fits"]


def test_where_only_one_of_the_published_figures_is_enough_it_is_unclear_and_no_failure() -> None:
    found, code = fit("--phase", "training", "--batch-size", "875", "--memory", "16GB")
    assert found["answer"] == "unclear" and code == 0
    assert found["low"]["answer"] == "raises" and found["high"]["answer"] != "raises"


def test_the_message_is_pytorchs_with_the_call_at_which_it_raises() -> None:
    found, code = fit(*LARGE, "--memory", "1GB")
    low = found["low"]
    assert found["answer"] == "raises" and code == 1
    assert low["message"].startswith("MPS backend out of memory (MPS allocated: ")
    assert f"max allowed: {low['allowed_bytes'] / 2**30:.2f} GiB" in low["message"]
    assert low["operator"].startswith("aten::") and low["module"] and ".py:" in low["call_site"]
    assert low["first_step"] and low["margin_bytes"] < 0


def test_parameters_alone_are_too_much() -> None:
    found, _ = fit("--memory", "200MB")
    assert [found["low"][name] for name in ("refused", "phase", "operator")] == ["parameters", None, None]
    shown = run_cli("coverage", "bert-base", "--torch", "2.13.0", "--memory", "200MB", process=False).stdout
    assert "Does not fit on a Mac with" in shown and "its parameters alone 437.9 MB" in " ".join(shown.split())


def test_more_memory_than_the_mac_has_does_not_fit(tmp_path: Path) -> None:
    arguments = ("--memory", "1GB", "--fail-on", "memory", "-o", tmp_path / "r.json")
    ended = run_cli("coverage", "bert-base", *arguments, process=False)
    assert ended.code == 1
    assert ended.stderr.startswith("Does not fit on a Mac with 1 GB: it takes 1.1 GB, 8.4 MB more than the Mac has")
    assert "--fail-on: it takes 1,082,130,432 bytes of memory, and the Mac has 1,073,741,824" in ended.stderr


def test_a_watermark_of_zero_is_no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTORCH_MPS_HIGH_WATERMARK_RATIO", "0.0")
    found, _ = fit(*LARGE, "--memory", "1GB")
    assert found["answer"] == "pressure" and found["low"]["allowed_bytes"] is None


def test_a_format_that_shows_allocations_asks_for_them(tmp_path: Path) -> None:
    report, shown, again = (tmp_path / name for name in ("report.json", "step.pickle", "again.pickle"))
    run_cli("coverage", *SMALL, "-o", report, "--export", f"memory-viz={shown}", process=False)
    assert json.loads(report.read_text("utf-8"))["memory"]["allocations"]["storages"]
    run_cli("export", report, "--to", "memory-viz", "-o", again, process=False)
    assert again.read_bytes() == shown.read_bytes()


def test_every_chip_is_listed() -> None:
    result = run_cli("chips", process=False)
    assert result.code == 0 and [line.split()[0] for line in result.stdout.splitlines()[1:-2]] == [*all_chips()]
    rows = run_cli("chips", "list", "--format", "json", process=False).json()
    assert [row["name"] for row in rows] == [*all_chips()] and rows[0]["family"] == 7


def test_one_chip_with_its_limits_and_their_threads() -> None:
    result = run_cli("chips", "show", "m2-pro", process=False)
    assert "with 16 GB" in result.stdout and "with 32 GB" in result.stdout
    assert "10.67-11.84 GiB" in result.stdout and "AlexsJones/llmfit#754" in result.stdout
    document = run_cli("chips", "show", "M3 Max 64GB", "--format", "json", process=False).json()
    assert [one["memory_bytes"] for one in document["limits"]] == [64 * 2**30]
    wrong = run_cli("chips", "show", "m3-maxx", process=False)
    assert wrong.code == 2 and "did you mean 'm3-max'" in wrong.stderr
