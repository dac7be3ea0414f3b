"""Every block of every page is run, or checked as far as its kind can be without a Mac, a network or minutes."""

from __future__ import annotations

import ast
import json
import re
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

from tests.docs.pages import CACHED, EXAMPLES, OWN, WHY, Block, blocks, stories, typed
from tests.docs.running import assert_in_order, play
from tests.house.tree import ROOT

BLOCKS = [block for page in OWN for block in blocks(page)]
STORIES = [story for page in (*OWN, ROOT / "README.md") for story in stories(page)]
LANGUAGES = {"console", "sh", "python", "toml", "yaml", "json", "text", "html", "javascript"}


def _starts(story: list[Block]) -> str:
    return next(block.place for block in story if block.is_run)


def test_there_are_blocks_to_look_at() -> None:
    assert len(BLOCKS) > 40
    assert sum(block.is_run for block in BLOCKS) > 20
    assert len({_starts(story) for story in STORIES}) == len(STORIES)


def test_each_block_is_run_or_says_why_it_is_not() -> None:
    """What has no mark fails: nobody would notice when it stops being true."""
    for block in BLOCKS:
        _check_marks(block)


def _check_marks(block: Block) -> None:
    if block.language.startswith("{"):
        return  # a directive: the build of the site runs it
    assert block.language in LANGUAGES, block.place
    known = {"run", "then", CACHED, *WHY}
    assert all(word in known or word.startswith(("file=", "from=")) for word in block.words), block.place
    if block.language in {"console", "sh"}:
        assert block.is_run or set(block.words) & set(WHY), f"{block.place} is neither run nor says why it cannot be"
        assert list(typed(block)) or block.language == "sh", block.place
    if block.language == "python":
        assert block.is_run or block.value("file") or block.value("from"), f"nothing runs {block.place}"


def test_each_block_is_what_it_says() -> None:
    for block in BLOCKS:
        try:
            _check_text(block)
        except (SyntaxError, ValueError, yaml.YAMLError, AssertionError) as error:
            raise AssertionError(f"{block.place}: {error}") from error


def _check_text(block: Block) -> None:
    if block.language == "python":
        ast.parse(block.text)
    elif block.language == "json":
        json.loads(block.text)
    elif block.language == "yaml":
        assert yaml.safe_load(block.text)
    elif block.language == "toml":
        _check_toml(tomllib.loads(block.text))
    if (name := block.value("from")) is not None:
        source = re.sub(r"\s+", " ", (EXAMPLES / name).read_text(encoding="utf-8"))
        for line in (line.strip() for line in block.text.splitlines()):
            assert re.sub(r"\s+", " ", line) in source, f"{name} has no line '{line}'"


def _check_toml(document: dict[str, object]) -> None:
    project = document.get("project")
    if isinstance(project, dict):
        for requirement in project.get("dependencies", ()):
            Requirement(requirement)
        assert set(project.get("entry-points", {})) <= {"mpsprobe"}


def _usual(story: list[Block]) -> bool:
    """By default runs what the README, the tutorials and the explanations show."""
    return story[0].page.parent.name in (ROOT.name, "tutorials", "explanation")


@pytest.mark.parametrize(
    "story",
    [pytest.param(story, id=_starts(story), marks=[pytest.mark.thorough] * (not _usual(story))) for story in STORIES],
)
def test_what_a_page_runs_prints_what_it_says(story: list[Block], tmp_path: Path) -> None:
    play(story, tmp_path / "here")


def test_a_difference_is_noticed() -> None:
    assert_in_order("a … c", "a b c d")
    for said in ("a … d", "c … a", "x"):
        with pytest.raises(AssertionError):
            assert_in_order(said, "a b c")
