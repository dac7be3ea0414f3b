"""Every block and command line of every page is run, or checked as far as it can be; every hook has its example."""

from __future__ import annotations

import ast
import inspect
import json
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest
import yaml
from packaging.requirements import Requirement

from mpsprobe import hookspecs
from mpsprobe.cli.group import main_group
from mpsprobe.plugins.loading import HOOK_PREFIX
from mpsprobe_devkit.checking import check_plugin
from tests.docs.pages import CACHED, COMMENT, DOCS, EVERY, EXAMPLES, NEEDS, OWN, WHY, Block, blocks, stories, typed
from tests.docs.running import assert_in_order, play
from tests.house.tree import ROOT
from tests.thorough import all_but

BLOCKS = [block for page in OWN for block in blocks(page)]
STORIES = [story for page in (*OWN, ROOT / "README.md") for story in stories(page)]
LANGUAGES = {"console", "sh", "python", "toml", "yaml", "json", "text", "html", "javascript"}
INLINE = re.compile(r"(?<!`)`(mpsprobe [^`\n]+)`")
NOT_WHOLE = re.compile(r"[…|\[<]|\b[A-Z]{2,}\b")
"""What a line has that stands for something else: ``NAME``, ``FILE``, ``a|b``."""
SHELLS = {"console", "sh", "bash", "shell"}
PROGRAMS = {"mpsprobe", "python", "python3", "pip", "tensorboard", "cat", "ls", "cd", "git", "gh", "dask"}


def _lines(block: Block) -> list[str]:
    if block.language == "console":
        return [one.line for one in typed(block)]
    if block.language == "yaml":
        return [line for text in _values(yaml.safe_load(block.text), "run") for line in text.splitlines()]
    return [COMMENT.sub("", line).strip() for line in block.text.splitlines() if line.strip()]


def _values(document: object, key: str) -> list[str]:
    """Every text under ``key``, wherever it is in a document of lists and tables."""
    if isinstance(document, list):
        return [text for one in document for text in _values(one, key)]
    if isinstance(document, dict):
        own = [document[key]] if isinstance(document.get(key), str) else []
        return own + [text for one in document.values() for text in _values(one, key)]
    return []


def _command_lines() -> list[str]:
    """Every ``mpsprobe …`` of the pages, in blocks of commands and in running text."""
    found = set()
    for page in EVERY:
        for block in blocks(page):
            if block.language in SHELLS | {"yaml"} and not block.is_run:
                found |= {line for line in _lines(block) if line.startswith("mpsprobe ")}
        found |= set(INLINE.findall(page.read_text(encoding="utf-8")))
    return sorted(line.partition(">>")[0].strip() for line in found if not NOT_WHOLE.search(line.partition("$")[0]))


COMMANDS = _command_lines()
STARTS = [next(block.place for block in story if block.is_run) for story in STORIES]


def test_there_are_blocks_and_commands_to_look_at() -> None:
    assert len(BLOCKS) > 40
    assert sum(block.is_run for block in BLOCKS) > 20
    assert len({*STARTS}) == len(STORIES)
    assert len(COMMANDS) > 40


def test_each_block_is_what_it_says_and_is_run_or_says_why_it_is_not() -> None:
    """What has no mark fails: nobody would notice when it stops being true."""
    for block in BLOCKS:
        _check_marks(block)
        try:
            _check_text(block)
        except (SyntaxError, ValueError, yaml.YAMLError, AssertionError) as error:
            raise AssertionError(f"{block.place}: {error}") from error


def _check_marks(block: Block) -> None:
    if block.language.startswith("{"):
        return  # a directive: the build of the site runs it
    assert block.language in LANGUAGES, block.place
    known = {"run", "then", CACHED, *NEEDS, *WHY}
    assert all(word in known or word.startswith(("file=", "from=")) for word in block.words), block.place
    if block.language in {"console", "sh"}:
        assert block.is_run or set(block.words) & set(WHY), f"{block.place} is neither run nor says why it cannot be"
        assert list(typed(block)) or block.language == "sh", block.place
    if block.language == "python":
        assert block.is_run or block.value("file") or block.value("from"), f"nothing runs {block.place}"


def _check_text(block: Block) -> None:
    if block.language == "python":
        ast.parse(block.text)
    elif block.language == "json":
        json.loads(block.text)
    elif block.language == "yaml":
        assert yaml.safe_load(block.text)
    elif block.language == "toml":
        project = tomllib.loads(block.text).get("project", {})
        for requirement in project.get("dependencies", ()):
            Requirement(requirement)
        assert set(project.get("entry-points", {})) <= {"mpsprobe"}
    if (name := block.value("from")) is not None:
        source = re.sub(r"\s+", " ", (EXAMPLES / name).read_text(encoding="utf-8"))
        for line in (line.strip() for line in block.text.splitlines()):
            assert re.sub(r"\s+", " ", line) in source, f"{name} has no line '{line}'"


def _usual(story: list[Block]) -> bool:
    """By default runs what the README, tutorials and explanations show, where they say what is printed."""
    silent = not any(one.printed for block in story if block.language == "console" for one in typed(block))
    long = CACHED in story[0].words or (story[0].language == "console" and silent)
    return story[0].page.parent.name in (ROOT.name, "tutorials", "explanation") and not long


@pytest.mark.parametrize(
    "story",
    [pytest.param(story, marks=[pytest.mark.thorough] * (not _usual(story))) for story in STORIES],
    ids=STARTS,
)
def test_what_a_page_runs_prints_what_it_says(story: list[Block], tmp_path: Path) -> None:
    play(story, tmp_path / "here")


def test_a_difference_is_noticed() -> None:
    assert_in_order("a … c", "a b c d")
    for said in ("a … d", "c … a", "x"):
        with pytest.raises(AssertionError):
            assert_in_order(said, "a b c")


def _parse(group: click.Command, arguments: list[str], parent: click.Context | None) -> None:
    """Read ``arguments`` as the command line does, down to the last command, and run none of it."""
    with group.make_context("mpsprobe", list(arguments), parent=parent, resilient_parsing=False) as context:
        if isinstance(group, click.Group):
            rest = [*context._protected_args, *context.args]
            assert rest, "a group without a command"
            name, command, rest = group.resolve_command(context, rest)
            assert command is not None, name
            _parse(command, rest, context)


def test_every_command_parses() -> None:
    wrong = []
    for line in COMMANDS:
        try:
            _parse(main_group, shlex.split(re.sub(r"\$\{\{[^}]*\}\}", "inference", line))[1:], None)
        except click.exceptions.Exit as asked:  # --help
            wrong += [line] if asked.exit_code else []
        except (click.MissingParameter, click.exceptions.NoArgsIsHelpError):
            wrong += [line] if len(line.split()) > 3 else []  # a text may name a command alone
        except Exception as error:  # noqa: BLE001 - whatever a command says against it
            wrong.append(f"{line}: {error!r}")
    assert not wrong


def test_a_terminal_shows_programs_that_readers_have() -> None:
    for block in (block for page in EVERY for block in blocks(page) if block.language in SHELLS):
        for line in _lines(block):
            words = [word for word in shlex.split(line.partition("$(")[0]) if not re.fullmatch(r"[A-Z_]+=.*", word)]
            assert words[0] in PROGRAMS or words[0].startswith((".venv/bin/", "./")), f"{block.place}: {line}"


HELPS = """
import json
from _site.commands import COLUMNS, context_of, paths
from mpsprobe_devkit.testing import run_cli

def printed(path):
    return run_cli(*path, "--help", variables={"COLUMNS": str(COLUMNS)}, process=False)

found = {" ".join(path): (printed(path), context_of(path).get_help()) for path in paths() if path}
print(json.dumps({path: (one.code, one.stdout.rstrip("\\n"), shown) for path, (one, shown) in found.items()}))
"""


def test_the_help_of_the_reference_is_what_each_command_prints() -> None:
    """In a process of its own, as the site is made: click keeps what other tests asked for."""
    asked = subprocess.run([sys.executable, "-c", HELPS], cwd=DOCS, capture_output=True, text=True, check=True)
    found = json.loads(asked.stdout)
    assert len(found) > 20
    for path, (code, printed, shown) in found.items():
        assert (code, printed.split("\n")) == (0, shown.split("\n")), path


HOOKS = {name: hook for name, hook in vars(hookspecs).items() if name.startswith(HOOK_PREFIX)}
PAGES = [DOCS / "plugins" / "hooks.md", DOCS / "plugins" / "measuring-hooks.md"]
HOOKED = [block for page in PAGES for block in blocks(page) if block.language == "python" and block.value("file")]


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
    "block", all_but(lambda block: block in HOOKED[:4], HOOKED), ids=lambda block: str(block.value("file"))
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
        written = [str(block.value("file")) for block in HOOKED if f"def {name}(" in block.text]
        folders = {file.partition("/")[0] for file in written}
        assert any(f"--plugins-dir {folder} " in text for folder in folders for text in run), f"no example of {name}"
