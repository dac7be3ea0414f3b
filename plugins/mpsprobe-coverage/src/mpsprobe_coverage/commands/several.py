"""``mpsprobe coverage --workloads FILE``: several workloads, judged by processes side by side, as one report."""

from __future__ import annotations

import json
import os
import queue
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from fnmatch import fnmatchcase
from pathlib import Path

from mpsprobe.answers.lookup import find
from mpsprobe.answers.question import Question
from mpsprobe.environment import check_version, collect_environment
from mpsprobe.errors import MpsprobeError, PluginError, UsageError
from mpsprobe.plugins.registry import Registry
from mpsprobe.progress import SilentProgress
from mpsprobe.schemas import CoverageReport, JudgedWorkload, MatrixReport, SeveralReport
from mpsprobe.suggestions import printable
from mpsprobe_coverage.commands.child import Child, ChildEnded, threads_for
from mpsprobe_coverage.commands.judge import Judging
from mpsprobe_coverage.commands.options import TORCH, WILD, is_pattern

MOST_JOBS = 4
"""Processes without ``--jobs``: each has PyTorch in its memory, about half a GB, and more for a large model."""
EACH = 25
"""Workloads that one process judges before a new one takes over, which has none of their memory."""
POLL_S = 0.2  # between looks at Ctrl-C, which does not end a wait on Windows
PATIENCE = 4  # times what a process needs to start: without two results until then, a further one starts


def usual_jobs() -> int:
    """The number of processes where nobody says one."""
    return max(1, min(MOST_JOBS, os.cpu_count() or 1))


def names(typed: Sequence[str], files: Sequence[str], registry: Registry) -> list[str]:
    """Every workload that is asked for, once, in order.

    Args:
        typed: names and patterns.
        files: with one of them in each line, and comments after ``#``.

    Raises:
        UsageError: a file cannot be read or names nothing, or nothing fits a pattern.
    """
    asked = [*typed, *(line for path in files for line in _lines(path))]
    return list(dict.fromkeys(one for name in asked for one in _fitting(name, registry)))


def _lines(path: str) -> Iterator[str]:
    shown = printable(path)
    try:
        if Path(path).is_char_device():  # which may never end
            raise UsageError(f"{shown} is a device, not a file", "--workloads takes a file of names.")
        text = Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UsageError(f"cannot read {shown}: {error.strerror}", "--workloads takes a file of names.") from error
    except ValueError as error:
        raise UsageError(f"{shown} is not text", "--workloads takes a file with a name in each line.") from error
    found = [line.strip() for line in text.splitlines()]
    kept = [line.partition(" #")[0].strip() for line in found if line and not line.startswith("#")]
    if not kept:
        raise UsageError(f"{shown} names no workload", "Write a name in each line; a comment begins with #.")
    yield from kept


def _fitting(name: str, registry: Registry) -> list[str]:
    if not is_pattern(name):
        return [name]
    space, colon, _ = name.partition(":")
    known = registry.workload_space(space) if colon and not WILD.intersection(space) else registry.workloads()
    known = known or {}
    parts = (f"{one.name}/{part}" for one in known.values() for part in one.parts) if "/" in name else ()
    found = [one for one in (*known, *parts) if fnmatchcase(one, name)]
    if not found:
        hint = "A pattern is for names of 'mpsprobe workloads list' and 'list --hf'; others are named one by one."
        raise UsageError(f"no workload fits '{printable(name)}'", hint)
    return found


def judge(
    asked: Sequence[Question], judging: Judging, atlas: bool | None, jobs: int, timeout: int, progress: SilentProgress
) -> SeveralReport:
    """The report on all of ``asked``; after Ctrl-C on those that are done.

    Args:
        atlas: as ``find`` takes it.
        jobs: processes side by side.
        timeout: seconds that one workload may take.
    """
    for question in asked:
        question.around = asked[0].around
    found_before: dict[int, JudgedWorkload] = {}
    for index, question in enumerate(asked):
        if (row := _known(question, atlas)) is not None:
            found_before[index] = row
    left = [index for index in range(len(asked)) if index not in found_before]
    rows = found_before | (_worked_out(asked, left, judging, jobs, timeout, progress) if left else {})
    found = [rows[index] for index in range(len(asked)) if index in rows]
    made = next((row.report.environment for row in found if row.report is not None), None)
    return SeveralReport(environment=made or collect_environment(), workloads=found, complete=len(found) == len(asked))


def _known(question: Question, atlas: bool | None) -> JudgedWorkload | None:
    """The row of a workload whose answer is known, or whose answer nobody can find out here."""
    try:
        answer = find(question, atlas)
        report = answer.report() if answer is not None else None
    except PluginError:
        raise
    except MpsprobeError as error:
        return JudgedWorkload(name=question.workload, error=error.message, hint=error.hint)
    if not isinstance(report, (CoverageReport, MatrixReport)):
        return None
    return JudgedWorkload(name=question.workload, report=report)


def _worked_out(
    asked: Sequence[Question], left: Sequence[int], judging: Judging, jobs: int, timeout: int, progress: SilentProgress
) -> dict[int, JudgedWorkload]:
    """The rows of those numbered in ``left``; after Ctrl-C of those that are done."""
    if judging.framework == TORCH:
        check_version("torch", "mpsprobe-coverage", "coverage")
    shared = json.dumps(
        {**asdict(judging), "releases": [*judging.releases], "asked": [asked[0].options, asked[0].cached]}
    )
    progress.start(len(left), f"judging {len(left)} workloads")
    with tempfile.TemporaryDirectory(prefix="mpsprobe-") as folder:
        pool = _Pool(asked, left, shared, Path(folder), min(jobs, len(left)), timeout)
        try:
            for done in pool.results():
                progress.advance(f"judged {printable(asked[done].workload)}")
        except KeyboardInterrupt:
            pass
        finally:
            pool.end()
            progress.stop()
    return pool.rows


class _Pool:
    """Threads, each with a process; a process that ends costs the workload that it had.

    A process needs some seconds until its first result, and then a fraction of one for a small model. So a further one
    starts only where what is left takes longer than that.
    """

    def __init__(
        self, asked: Sequence[Question], left: Sequence[int], shared: str, folder: Path, jobs: int, timeout: int
    ) -> None:
        self.rows: dict[int, JudgedWorkload] = {}
        self._asked, self._shared, self._folder, self._timeout = asked, shared, folder, timeout
        self._count = len(left)
        self._left: queue.SimpleQueue[int] = queue.SimpleQueue()
        for index in left:
            self._left.put(index)
        self._done: queue.SimpleQueue[int | BaseException] = queue.SimpleQueue()
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._running: set[Child] = set()
        self._jobs = jobs
        self._threads: list[threading.Thread] = []
        self._ready_s = self._first_s = 0.0  # until the first process was ready, and had its first result
        self._started = 0.0
        self._later: list[float] = []  # seconds of results that were not the first of their process

    def results(self) -> Iterator[int]:
        """The number of each workload as soon as it is judged."""
        self._started = started = time.monotonic()
        for _ in range(self._count):
            found: int | BaseException | None = None
            while found is None:
                if self._is_worth_another(time.monotonic() - started):
                    self._threads.append(threading.Thread(target=self._work, daemon=True))
                    self._threads[-1].start()
                try:
                    found = self._done.get(timeout=POLL_S)
                except queue.Empty:
                    continue
            if isinstance(found, BaseException):
                raise found
            self._first_s = self._first_s or time.monotonic() - started
            yield found

    def _is_worth_another(self, elapsed: float) -> bool:
        running, left = len(self._threads), self._left.qsize()
        if running == self._jobs or not left:
            return False
        known = [*self._later]
        if not known:  # how long one takes in a process that runs
            return running == 0 or elapsed > PATIENCE * running * self._ready_s > 0
        return left * sum(known) / len(known) / running > self._first_s

    def end(self) -> None:
        """End every process; what they had not finished has no row."""
        self._ended.set()
        with self._lock:
            for one in self._running:
                one.kill()
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        try:
            while not (self._ended.is_set() or self._left.empty()):
                self._with_one_process()
        except BaseException as error:  # noqa: BLE001 - the main thread raises it
            self._done.put(error)

    def _with_one_process(self) -> None:
        child = Child("mpsprobe_coverage.commands.worker", self._shared, threads_for(self._jobs))
        with self._lock:
            self._running.add(child)
            if self._ended.is_set():
                child.kill()
        try:
            child.wait_until_ready()
            self._ready_s = self._ready_s or time.monotonic() - self._started
            for number in range(EACH):
                try:
                    index = self._left.get_nowait()
                except queue.Empty:
                    return
                row = self._row(child, index)
                if self._ended.is_set():
                    return
                self.rows[index] = row
                self._later += [row.seconds] if number else []
                self._done.put(index)
                if not child.alive:
                    return
        finally:
            with self._lock:
                self._running.discard(child)
            child.close()

    def _row(self, child: Child, index: int) -> JudgedWorkload:
        question, path = self._asked[index], self._folder / f"{index}.json"
        try:
            child.ask(json.dumps({"workload": question.workload, "path": str(path)}), self._timeout)
        except ChildEnded as ended:
            return JudgedWorkload(name=question.workload, error=ended.message, hint=ended.hint)
        return JudgedWorkload.model_validate_json(path.read_bytes())
