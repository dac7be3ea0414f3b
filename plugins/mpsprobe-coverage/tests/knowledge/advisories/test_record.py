"""The record of what was read: each thread and each test has an outcome, and what it names exists."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from mpsprobe_coverage.knowledge.advisories.store import all_entries

FILES = sorted((Path(__file__).parent / "record").glob("*.toml"))
LINES: dict[str, list[dict[str, Any]]] = {
    path.stem: [line for kind in tomllib.loads(path.read_text()).values() for line in kind] for path in FILES
}
ENTRIES = {
    kind: {one.id for one in all_entries() if (one.effect == "numbers") is (kind == "advisory")}
    for kind in ("advisory", "refusal")
}
OTHERS = {"judged", "not a call", "not reproducible", "before 1.12", "no release known", "compile only"}


def test_there_are_records() -> None:
    assert "tests" in LINES and all(LINES.values())


@pytest.mark.parametrize("file", LINES)
def test_each_line_says_what_became_of_it(file: str) -> None:
    for line in LINES[file]:
        assert {"source", "says", "outcome"} <= set(line), line
        assert all(isinstance(text, str) and text.strip() for text in line.values()), line
        kind, _, name = line["outcome"].partition(":")
        if name:
            assert kind in ENTRIES and name in ENTRIES[kind], line
        else:
            assert kind in OTHERS, line


@pytest.mark.parametrize("file", LINES)
def test_no_source_is_written_twice(file: str) -> None:
    sources = [line["source"] for line in LINES[file]]
    assert sorted(set(sources)) == sorted(sources)
