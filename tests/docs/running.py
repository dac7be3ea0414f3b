"""Runs the blocks of a page that are to be run, and compares what they print."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from mpsprobe.testing.commands import command_environment
from tests.docs.pages import EXAMPLES, Block, typed

DRIVER = Path(__file__).with_name("driver.py")
COLUMNS = "100"
PROGRAMS = {"mpsprobe", "python", "cat", "ls"}
LONGEST_S = 600


def play(story: list[Block], folder: Path) -> None:
    """Write the files of ``story`` into ``folder``, beside the examples, and run its blocks there in order."""
    shutil.copytree(EXAMPLES, folder, ignore=shutil.ignore_patterns("__pycache__", "mpsprobe-*"))
    place = folder
    for block in story:
        if (name := block.value("file")) is not None:
            target = place / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(block.text + "\n", encoding="utf-8")
        elif block.language == "python":
            ended = _process([sys.executable, "-"], place, block.text)
            assert ended.returncode == 0, f"{block.place}: {ended.stderr}"
        else:
            _run(block, place)


def _run(block: Block, folder: Path) -> None:
    wanted = list(typed(block))
    assert wanted, f"{block.place} has no command"
    asked = []
    for one in wanted:
        words = shlex.split(one.line)
        variables = {}
        while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
            name, _, variables[name] = words.pop(0).partition("=")
        assert words and words[0] in PROGRAMS, f"{block.place}: {one.line} cannot be run"
        asked.append({"program": words[0], "arguments": words[1:], "variables": variables})
    ended = _process([sys.executable, "-P", str(DRIVER)], folder, json.dumps(asked))
    assert ended.returncode == 0, f"{block.place}: {ended.stderr}"
    for one, answer in zip(wanted, json.loads(ended.stdout), strict=True):
        assert answer["code"] == one.code, f"{block.place}: {one.line}\n{answer['output']}"
        assert_in_order(one.printed, answer["output"])


def _process(command: list[str], folder: Path, stdin: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=folder,
        input=stdin,
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={**command_environment(), "COLUMNS": COLUMNS, "PYTHONUTF8": "1"},
        timeout=LONGEST_S,
        check=False,
    )


def assert_in_order(said: str, printed: str) -> None:
    """Each part of ``said`` between ``…`` occurs in ``printed``, one after the other; runs of blanks count as one."""
    rest = " ".join(printed.split())
    for part in said.split("…"):
        if wanted := " ".join(part.split()):
            before, found, rest = rest.partition(wanted)
            assert found, f"'{wanted}' is not in: {before}"
