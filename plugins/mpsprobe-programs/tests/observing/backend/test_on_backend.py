"""Observed fallbacks, compared with the counts of a small backend in C++, that of mpsprobe-coverage's tests."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from observed_on_backend import MANY, PROGRAMS

from tests.once import built_library

SCRIPT = Path(__file__).with_name("observed_on_backend.py")
SOURCE = Path(__file__).parents[4] / "mpsprobe-coverage/tests/device/fallback_backend.cpp"


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the script writes."""
    folder = tmp_path_factory.mktemp("backend")
    library = built_library(tmp_path_factory.getbasetemp(), SOURCE)
    command = [sys.executable, str(SCRIPT), str(library), str(folder)]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr[-4000:]
    found: dict[str, Any] = json.loads((folder / "seen.json").read_text())
    return found


def test_every_fallback_and_every_byte_is_seen(seen: dict[str, Any]) -> None:
    """Also those of the backward pass, which runs on the engine's own thread, and of other threads."""
    assert {name: seen[name]["sums"] for name in PROGRAMS} == {name: seen[name]["backend"] for name in PROGRAMS}
    assert seen["many"]["fell back"]["aten::erfinv.out forward"] == MANY
    assert seen["many"]["kinds"] < 20


def test_no_number_changes(seen: dict[str, Any]) -> None:
    assert [name for name in PROGRAMS if not seen[name]["same"]] == []


def test_phases_and_lines(seen: dict[str, Any]) -> None:
    fell_back = seen["training"]["fell back"]
    assert fell_back["aten::linalg_svd forward"] == 2
    assert {key.rpartition(" ")[2] for key in fell_back} == {"forward", "backward", "optimizer"}
    assert len(seen["training"]["lines of backward"]) > 1


def test_the_report_tells_registered_fallbacks_from_missing_kernels(seen: dict[str, Any]) -> None:
    report = seen["report"]
    verdicts = {finding["operator"]: finding for finding in report["operators"]}
    assert report["method"] == "observed" and report["target"]["backend"] == "made"
    assert verdicts["aten::linalg_svd"]["verdict"] == "fallback"
    assert verdicts["aten::cumsum.out"]["verdict"] == "missing"
    assert "bytes" in verdicts["aten::linalg_svd"]["reason"]
