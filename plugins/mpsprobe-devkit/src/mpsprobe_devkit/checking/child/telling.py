"""How the child reports its findings, step by step, so that an end in the middle of one can be recognised."""

from __future__ import annotations

import contextlib
import faulthandler
import inspect
import json
import os
import sys
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from mpsprobe.plugins.loading import describe
from mpsprobe_devkit.checking.findings import Finding, finding


def lies_in(path: str, places: Iterable[str]) -> bool:
    """Whether the real ``path`` is one of ``places``, or lies below one, or is a module of that name."""
    return any(path in (one, f"{one}.py") or path.startswith(one.rstrip(os.sep) + os.sep) for one in places)


class Teller:
    """Writes events to ``events.jsonl`` and watches the time of each step.

    Args:
        folder: of this child.
        request: its ``skip`` has the steps that ended an earlier child, its ``limit`` the seconds that a step may take.
    """

    def __init__(self, folder: Path, request: dict[str, Any]) -> None:
        self.root = Path(request["root"])
        self._own = tuple(os.path.realpath(one) for one in request["own"])
        self._events = folder / "events.jsonl"
        self._skip = set(request["skip"])
        self._limit = float(request["limit"])
        self._trace = (folder / "trace.txt").open("w", encoding="utf-8")
        self._output = os.dup(1)  # the plugin may close or replace the original
        faulthandler.enable(self._trace)

    def tell(self, **event: Any) -> None:
        """Append one event. The file is opened each time: a plugin may close every descriptor that it finds."""
        with self._events.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(event) + "\n")

    def found(self, code: str, message: str, where: str = "", hint: str | None = None) -> None:
        """Tell a finding."""
        self.tell(finding=finding(code, message, where, hint).as_dict())

    def found_all(self, findings: list[Finding]) -> None:
        """Tell several findings."""
        for one in findings:
            self.tell(finding=one.as_dict())

    @contextlib.contextmanager
    def step(self, name: str, *, where: str = "", limit: float | None = None) -> Iterator[bool]:
        """A part of the plugin's work; gives whether it should be done. Whatever it prints is reported with the step.

        After ``limit`` seconds (default: the request's) the process ends, and the trace says where it was.
        """
        if name in self._skip:
            yield False
            return
        begin = self._size()
        self.tell(begin=name, where=where, limit=limit or self._limit)
        faulthandler.dump_traceback_later(limit or self._limit, exit=True, file=self._trace)
        try:
            yield True
        finally:
            faulthandler.cancel_dump_traceback_later()
            self.tell(end=name, where=where, printed=[begin, self._size()])

    def _size(self) -> int:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        try:
            return os.fstat(self._output).st_size
        except OSError:
            return 0

    # -- places --------------------------------------------------------------------------------------

    def is_own(self, path: str) -> bool:
        """Whether the file lies in the plugin that is checked."""
        return lies_in(os.path.realpath(path), self._own)

    def shown(self, path: str) -> str:
        """``path`` relative to the plugin's folder where it lies in there."""
        try:
            return Path(path).resolve().relative_to(self.root.resolve()).as_posix()
        except (OSError, ValueError):
            return Path(path).name

    def place(self, value: Any) -> str:
        """``file:line`` of a function or class, empty where that is not known."""
        code = getattr(getattr(value, "__wrapped__", value), "__code__", None)
        if code is None:
            return ""
        return f"{self.shown(code.co_filename)}:{code.co_firstlineno}"

    def place_of_target(self, target: Any) -> str:
        """``file:line`` of what a target names: a function, a class, or the class of an object."""
        if place := self.place(getattr(target, "callback", None) or target):  # of a click.Command
            return place
        kind = target if isinstance(target, type) else type(target)
        try:
            return f"{self.shown(inspect.getfile(kind))}:{inspect.getsourcelines(kind)[1]}"
        except (OSError, TypeError):
            return ""

    def place_of_error(self, error: BaseException) -> str:
        """``file:line`` of the plugin's own line that raised, or called what raised."""
        if isinstance(error, SyntaxError) and error.filename:
            return f"{self.shown(error.filename)}:{error.lineno or 1}"
        frames = [one for one in traceback.extract_tb(error.__traceback__) if self.is_own(one.filename)]
        return f"{self.shown(frames[-1].filename)}:{frames[-1].lineno}" if frames else ""

    def described(self, error: BaseException) -> str:
        """``ValueError: the message``; an exception whose text raises is described too."""
        try:
            return describe(error)
        except Exception:  # noqa: BLE001 - the plugin's own __str__
            return type(error).__name__
