"""Every command line of a page is one that the program understands, and every ``--help`` in it is the real one."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys

import click
import pytest
import yaml

from mpsprobe.cli.group import main_group
from tests.docs.pages import COMMENT, DOCS, EVERY, Block, blocks, typed

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
PAGED = [block for page in EVERY for block in blocks(page) if block.language in SHELLS]


def _parse(group: click.Command, arguments: list[str], parent: click.Context | None) -> None:
    """Read ``arguments`` as the command line does, down to the last command, and run none of it."""
    with group.make_context("mpsprobe", list(arguments), parent=parent, resilient_parsing=False) as context:
        if isinstance(group, click.Group):
            rest = [*context._protected_args, *context.args]
            assert rest, "a group without a command"
            name, command, rest = group.resolve_command(context, rest)
            assert command is not None, name
            _parse(command, rest, context)


@pytest.mark.parametrize("line", COMMANDS)
def test_every_command_parses(line: str) -> None:
    words = shlex.split(re.sub(r"\$\{\{[^}]*\}\}", "inference", line))[1:]
    try:
        _parse(main_group, words, None)
    except click.exceptions.Exit as asked:  # --help
        assert asked.exit_code == 0
    except (click.MissingParameter, click.exceptions.NoArgsIsHelpError):
        assert len(line.split()) <= 3, "a text may name a command alone, but what looks whole should be"


def test_there_are_commands_to_look_at() -> None:
    assert len(COMMANDS) > 40


def test_a_terminal_shows_programs_that_readers_have() -> None:
    for block in PAGED:
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
