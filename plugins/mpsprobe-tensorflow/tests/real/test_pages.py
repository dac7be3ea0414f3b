"""The pages' blocks that need TensorFlow are run, as ``tests/docs`` runs the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.pages import OWN, TENSORFLOW, Block, blocks, stories
from tests.docs.running import play

STORIES = [story for page in OWN for story in stories(page, tensorflow=True)]


def _starts(story: list[Block]) -> str:
    return next(block.place for block in story if block.is_run)


def test_each_block_that_needs_it_is_run() -> None:
    needing = [block for page in OWN for block in blocks(page) if TENSORFLOW in block.words]
    assert len(needing) >= 5 and all(block.is_run for block in needing)


@pytest.mark.parametrize("story", STORIES, ids=_starts)
def test_what_a_page_runs_prints_what_it_says(story: list[Block], tmp_path: Path) -> None:
    play(story, tmp_path / "here")
