"""Runs parts of the check in fresh processes, with a time limit, and understands how one ended that did not finish."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mpsprobe.plugins.containment import TIMEOUT_VARIABLE
from mpsprobe_devkit.checking.child.telling import lies_in
from mpsprobe_devkit.checking.findings import Finding

START_S = 60.0  # until the child's first step: Python and mpsprobe itself, on a machine that does other things too
GRACE_S = 2.0  # the child ends itself at the limit; the parent waits this much longer for a child that cannot
SLICE_S = 0.02
MOST_OUTPUT = 8_000_000  # bytes that a plugin may print before it is stopped
MOST_RESTARTS = 8
FRAME = re.compile(r'File "(.+)", line (\d+)')
HANGS, EXITS, FLOODS = "hangs", "exits", "floods"


@dataclass(frozen=True, slots=True)
class Ended:
    """A step in which the process ended.

    Attributes:
        step: its name, ``import`` or ``hook:mpsprobe_workloads``.
        how: ``hangs``, ``exits`` (a crash too) or ``floods`` (prints without end).
        detail: in words, what follows "it".
        where: ``file:line`` of the plugin that was running, as far as that is known; else the step's own.
    """

    step: str
    how: str
    detail: str
    where: str


@dataclass(slots=True)
class Answers:
    """The answers of the children.

    Attributes:
        events: of all of them, in order, without those that this class has taken apart.
        findings: their findings.
        ended: the steps in which one ended; the steps after them were done by the next child.
        printed: the first line and the number of bytes that each step printed, with the step's place.
        gave_up: why there are steps that no child has done; ``None`` if there are none.
    """

    events: list[dict[str, Any]] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    ended: list[Ended] = field(default_factory=list)
    printed: dict[str, tuple[str, int, str]] = field(default_factory=dict)
    gave_up: str | None = None

    def events_with(self, key: str) -> Iterator[dict[str, Any]]:
        """The events that have ``key``."""
        return (event for event in self.events if key in event)


class Run:
    """One part of the check in a process of its own, started at once; ``answers`` waits for it.

    Args:
        mode: of ``mpsprobe_devkit.checking.child``.
        request: what it needs in addition to the next ones.
        path: its ``sys.path``.
        own: folders or files of the plugin.
        root: the folder that places are relative to.
        limit: seconds that a step may take.
    """

    def __init__(
        self, mode: str, request: dict[str, Any], *, path: list[str], own: list[str], root: Path, limit: float
    ) -> None:
        self._request = {**request, "mode": mode, "path": path, "own": own, "root": str(root), "limit": limit}
        self._own = tuple(os.path.realpath(one) for one in own)
        self._root = root
        self._skip: list[str] = []
        self._seen: set[str] = set()
        self._child = _Child({**self._request, "skip": []})

    def answers(self) -> Answers:
        """Its answers, after it has ended. A child that ended in a step is started again for the steps after that."""
        answers = Answers()
        try:
            for attempt in range(MOST_RESTARTS + 1):
                if attempt:
                    self._child = _Child({**self._request, "skip": self._skip})
                ended = self._finish(answers)
                if ended is None:
                    break
                answers.ended.append(ended)
                self._skip.append(ended.step)
                if ended.step == "import":
                    break
            else:
                answers.gave_up = f"it ended the process {MOST_RESTARTS + 1} times; what comes after was not looked at"
        finally:
            self.close()
        answers.findings = list(dict.fromkeys(answers.findings))
        return answers

    def close(self) -> None:
        """End the process if it still runs (after Ctrl-C), and remove what it wrote."""
        self._child.stop()
        self._child.forget()

    def _finish(self, answers: Answers) -> Ended | None:
        how = self._child.wait()
        begun: dict[str, Any] | None = None
        last: dict[str, Any] | None = None
        done = False
        for event in self._child.events():
            if "finding" in event:
                answers.findings.append(Finding(**event["finding"]))
            elif "begin" in event:
                begun = last = event
            elif "end" in event:
                begun = None
                begin, end = event["printed"]
                if end > begin:
                    answers.printed[event["end"]] = (self._child.printed(begin, end), end - begin, event["where"])
            elif "done" in event:
                done = True
            elif (line := json.dumps(event)) not in self._seen:  # a second child tells again what the first one did
                self._seen.add(line)
                answers.events.append(event)
        if done:
            self._child.forget()
            return None
        begun = begun or last  # between two steps only something that an earlier one left behind can end the process
        if begun is None:
            said = self._child.printed(0, 0, last=True)
            raise RuntimeError(f"a part of the check ended with exit code {self._child.code}: {said}")
        trace = self._child.trace()
        if how is None:
            how = HANGS if trace.startswith("Timeout") else EXITS
        detail = {
            HANGS: f"does not end within {begun['limit']:g} s",
            FLOODS: f"prints more than {MOST_OUTPUT:,} bytes",
            EXITS: _exit_in_words(self._child.code, trace),
        }[how]
        ended = Ended(begun["begin"], how, detail, self._place(trace) or begun["where"])
        self._child.forget()
        return ended

    def _place(self, trace: str) -> str:
        """The plugin's line that was running, from what ``faulthandler`` wrote."""
        for file, line in FRAME.findall(trace):
            real = os.path.realpath(file)
            if lies_in(real, self._own):
                with contextlib.suppress(ValueError):
                    return f"{Path(real).relative_to(self._root.resolve()).as_posix()}:{line}"
                return f"{Path(real).name}:{line}"
        return ""


def _exit_in_words(code: int | None, trace: str) -> str:
    if code is not None and code < 0:
        try:
            return f"crashes with {signal.Signals(-code).name}"
        except ValueError:
            return f"crashes with signal {-code}"
    if trace.startswith(("Fatal", "Windows fatal")):
        return f"crashes: {trace.splitlines()[0]}"
    return f"ends the process with exit code {code}"


class _Child:
    """A process and the folder that it tells into."""

    def __init__(self, request: dict[str, Any]) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="mpsprobe-", ignore_cleanup_errors=True)
        self._path = Path(self._folder.name)
        (self._path / "request.json").write_text(json.dumps(request), encoding="utf-8")
        self._output = (self._path / "output.txt").open("wb")
        self._events: list[dict[str, Any]] = []
        self._read = 0
        # -P: no file of the current folder stands in for a module. A thread for each limit is not needed here.
        command = [sys.executable, "-P", "-m", "mpsprobe_devkit.checking.child", str(self._path)]
        environment = {**os.environ, TIMEOUT_VARIABLE: "0", "PYTHONIOENCODING": "utf-8:backslashreplace"}
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=self._output, stderr=self._output, env=environment
        )

    @property
    def code(self) -> int | None:
        return self._process.returncode

    def wait(self) -> str | None:
        """Wait for its end; how it had to be ended, or ``None`` if it ended itself."""
        events, output = self._path / "events.jsonl", self._path / "output.txt"
        size, since, limit = -1, time.monotonic(), START_S
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(SLICE_S)
                return None
            now = events.stat().st_size if events.exists() else 0
            if now != size:
                size, since = now, time.monotonic()
                limit = self._limit()
            if output.stat().st_size > MOST_OUTPUT:
                self.stop()
                return FLOODS
            if time.monotonic() - since > limit + GRACE_S:
                self.stop()
                return HANGS

    def _limit(self) -> float:
        """Of the step that goes on now; between steps nothing of the plugin runs."""
        for event in reversed(self.events()):
            if "begin" in event:
                return float(event["limit"])
            if "end" in event:
                break
        return START_S

    def stop(self) -> None:
        """End it now."""
        self._process.kill()
        self._process.wait()

    def events(self) -> list[dict[str, Any]]:
        """Its answers so far; a line that is being written is left for the next time."""
        try:
            with (self._path / "events.jsonl").open("rb") as stream:
                stream.seek(self._read)
                new = stream.read()
        except OSError:
            return self._events
        whole = new[: new.rfind(b"\n") + 1]
        self._read += len(whole)
        for line in whole.splitlines():
            with contextlib.suppress(ValueError):
                self._events.append(json.loads(line))
        return self._events

    def trace(self) -> str:
        """What ``faulthandler`` wrote."""
        try:
            return (self._path / "trace.txt").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""

    def printed(self, begin: int, end: int, *, last: bool = False) -> str:
        """The first line of what it printed from byte ``begin`` to ``end``, or the last line of all."""
        try:
            with (self._path / "output.txt").open("rb") as stream:
                stream.seek(begin)
                text = stream.read(65536 if last else min(end - begin, 1000)).decode("utf-8", "replace")
        except OSError:
            return ""
        lines = [line for line in text.splitlines() if line.strip()] or [""]
        return lines[-1 if last else 0]

    def forget(self) -> None:
        """Remove its folder."""
        self._output.close()
        self._folder.cleanup()
