"""Runs the blocks of a page that are to be run, and compares what they print."""

from __future__ import annotations

import atexit
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from mpsprobe_devkit.testing.commands import command_environment
from tests.docs.driver import CAN_FORK, LONGEST_S
from tests.docs.pages import CACHED, EXAMPLES, Block, typed

DRIVER = Path(__file__).with_name("driver.py")
COLUMNS = "100"
PROGRAMS = {"mpsprobe", "python", "cat", "ls"}

_serving: list[subprocess.Popen[str]] = []


def play(story: list[Block], folder: Path) -> None:
    """Write the files of ``story`` into ``folder``, next to the examples, and run its blocks there in order."""
    shutil.copytree(EXAMPLES, folder, ignore=shutil.ignore_patterns("__pycache__", "mpsprobe-*"))
    for block in story:
        if (name := block.value("file")) is not None:
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(block.text + "\n", encoding="utf-8")
        elif block.language == "python":
            command = [sys.executable, "-"]
            ended = subprocess.run(
                command,
                cwd=folder,
                input=block.text,
                capture_output=True,
                text=True,
                encoding="utf-8",
                env=_environment(),
                timeout=LONGEST_S,
                check=False,
            )
            assert ended.returncode == 0, f"{block.place}: {ended.stderr}"
        else:
            _run(block, folder)


def _environment() -> dict[str, str]:
    """A fork must have no threads, which OpenMP would start; the tests of a page run in its order."""
    own = {"COLUMNS": COLUMNS, "PYTHONUTF8": "1", "OMP_NUM_THREADS": "1", "PYTEST_ADDOPTS": "-p no:randomly"}
    return {**command_environment(), **own}


def _run(block: Block, folder: Path) -> None:
    wanted = list(typed(block))
    assert wanted, f"{block.place} has no command"
    own = {"XDG_CACHE_HOME": str(folder / "cache"), "MPSPROBE_NO_CACHE": "0"} if CACHED in block.words else {}
    asked = []
    for one in wanted:
        words = shlex.split(one.line)
        variables = dict(own)
        while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
            name, _, variables[name] = words.pop(0).partition("=")
        assert words and words[0] in PROGRAMS, f"{block.place}: {one.line} cannot be run"
        asked.append({"program": words[0], "arguments": words[1:], "variables": variables})
    answers = _answers({"folder": str(folder), "commands": asked})
    assert isinstance(answers, list), f"{block.place} ended its process: {answers}"
    for one, answer in zip(wanted, answers, strict=True):
        assert answer["code"] == one.code, f"{block.place}: {one.line}\n{answer['output']}"
        assert_in_order(one.printed, answer["output"])


def _answers(asked: dict[str, Any]) -> Any:
    """What the driver says: the one of this process, which forks for each block, or one that is started for it."""
    if not _serving or not CAN_FORK:
        _serving[:] = [_started()]
    driver = _serving[0]
    assert driver.stdin is not None and driver.stdout is not None
    driver.stdin.write(json.dumps(asked) + "\n")
    driver.stdin.flush()
    return json.loads(driver.stdout.readline())


def _started() -> subprocess.Popen[str]:
    # -P: no file of the current folder stands in for a module, as with the installed script.
    driver = subprocess.Popen(
        [sys.executable, "-P", str(DRIVER)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=_environment(),
        encoding="utf-8",
        cwd=os.path.sep,
    )
    atexit.register(_end, driver)
    return driver


def _end(driver: subprocess.Popen[str]) -> None:
    assert driver.stdin is not None and driver.stdout is not None
    driver.stdin.close()
    driver.wait(timeout=LONGEST_S)
    driver.stdout.close()


def assert_in_order(said: str, printed: str) -> None:
    """Each part of ``said`` between ``…`` occurs in ``printed``, one after the other; runs of blanks count as one."""
    rest = " ".join(printed.split())
    for part in said.split("…"):
        if wanted := " ".join(part.split()):
            before, found, rest = rest.partition(wanted)
            assert found, f"'{wanted}' is not in: {before}"
