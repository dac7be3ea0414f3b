"""``mpsprobe card``: the question of ``coverage`` with a Mac as people name it."""

from __future__ import annotations

import json
from pathlib import Path

from mpsprobe_devkit.testing import run_cli

SMALL = ("card", "bert-base", "--size", "small", "--torch", "2.13.0", "--mac")


def test_without_a_memory_it_is_about_each(tmp_path: Path) -> None:
    said = run_cli(*SMALL, "mac mini m4", process=False)
    assert said.code == 0 and "bert-base runs on an M4 with 16, 24 or 32 GB" in said.stdout
    report = json.loads(run_cli(*SMALL, "mac mini m4", "--json", process=False).stdout)
    assert report["kind"] == "coverage" and report["memory"]["fit"] is None
    assert [(one["machine"], one["answer"]) for one in report["memory"]["fits"]] == [
        ("m4-16gb", "fits"), ("m4-24gb", "fits"), ("m4-32gb", "fits")
    ]  # fmt: skip
    badge = tmp_path / "mps.svg"
    made = run_cli(*SMALL, "M2 Air 16GB", "--badge", "-o", str(badge), process=False)
    assert made.code == 0 and "runs on an M2&#160;with 16&#160;GB</text>" in badge.read_text()
    words = tmp_path / "bert.card.md"
    run_cli(*SMALL, "M2 Air 16GB", "-o", str(words), process=False)
    assert words.read_text().startswith("**bert-base runs on an M2 with 16 GB.**")


def test_wrong_use() -> None:
    assert "unknown chip 'M2 Utlra'; did you mean" in run_cli("card", "bert-base", "--mac", "M2 Utlra").stderr
    refused = run_cli("card", "bert-base", "--mac", "m1", "--torch", "2.12,2.13", process=False)
    assert refused.code == 2 and "a card is about one torch release" in refused.stderr
