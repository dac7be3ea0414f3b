"""Functions of a test file that are called one by one in a child process, which runs the file as a script.

For what a process can do once: the native device can be opened only before torch has looked for MPS.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import torch

from tests.house.tree import ROOT


class Child:
    """The process; each call asks it for a function by its name, and fails where that has raised."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def __call__(self, name: str) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        print(name, file=self._process.stdin, flush=True)
        raised = json.loads(self._process.stdout.readline())
        assert not raised, raised


@contextmanager
def child_of(file: str) -> Iterator[Child]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-W", "ignore", file]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        yield Child(process)
        process.communicate()


def answer(functions: Iterable[Callable[[], None]]) -> None:
    """In the child: call what is asked for, until the parent closes."""
    by_name = {one.__name__: one for one in functions}
    for line in sys.stdin:
        raised = ""
        torch.manual_seed(0)  # whichever came before
        try:
            by_name[line.strip()]()
        except BaseException:  # noqa: BLE001 - the test shows it
            raised = traceback.format_exc()
        print(json.dumps(raised), flush=True)  # noqa: T201 - to the test
