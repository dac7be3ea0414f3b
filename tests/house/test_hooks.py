"""Every hook is documented with its exact arguments and an example that is run; no page has one that is not there."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from mpsprobe import hookspecs
from mpsprobe.plugins.loading import HOOK_PREFIX
from mpsprobe_devkit.checking import check_plugin
from tests.docs.pages import DOCS, Block, blocks, stories
from tests.thorough import all_but

HOOKS = {name: hook for name, hook in vars(hookspecs).items() if name.startswith(HOOK_PREFIX)}
PAGES = [DOCS / "plugins" / "hooks.md", DOCS / "plugins" / "measuring-hooks.md"]
EXAMPLES = [block for page in PAGES for block in blocks(page) if block.value("file")]


def _sections() -> dict[str, str]:
    """The sections of the pages by their heading's code."""
    found: dict[str, str] = {}
    for page in PAGES:
        parts = re.split(r"^## `(.+)`$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
        sections = dict(zip(parts[1::2], parts[2::2], strict=True))
        assert not set(found) & set(sections), "a hook has two sections"
        found |= sections
    return found


def test_the_pages_have_the_hooks_and_nothing_else() -> None:
    headings = [f"{name}({', '.join(inspect.signature(hook).parameters)})" for name, hook in HOOKS.items()]
    assert set(_sections()) == set(headings)


def test_each_section_speaks_of_each_argument_and_each_hook_says_when_it_is_called() -> None:
    sections = _sections()
    for name, hook in HOOKS.items():
        [text] = [text for heading, text in sections.items() if heading.startswith(name + "(")]
        assert not [one for one in inspect.signature(hook).parameters if f"`{one}`" not in text], name
        documentation = inspect.getdoc(hook) or ""
        assert "Called" in documentation or "Findings for" in documentation, name


@pytest.mark.parametrize(
    "block", all_but(lambda block: block in EXAMPLES[:4], EXAMPLES), ids=lambda block: str(block.value("file"))
)
def test_each_example_is_sound(block: Block, tmp_path: Path) -> None:
    """People copy them: ``mpsprobe plugins check`` has no word against any."""
    file = tmp_path / Path(str(block.value("file"))).name
    file.write_text(block.text + "\n", encoding="utf-8")
    assert not [f"{one.code}: {one.message}" for one in check_plugin(file)]


def test_each_hook_has_an_example_that_a_command_loads() -> None:
    """A file with this hook, in a folder that a block which is run names; ``tests/docs/test_blocks.py`` runs it."""
    run = [block.text for page in PAGES for story in stories(page) for block in story if block.is_run]
    for name in HOOKS:
        written = [str(block.value("file")) for block in EXAMPLES if f"def {name}(" in block.text]
        folders = {file.partition("/")[0] for file in written}
        assert any(f"--plugins-dir {folder} " in text for folder in folders for text in run), f"no example of {name}"
