"""Rows worked out by processes of this machine, each with limits of time and memory."""

from __future__ import annotations

import json
import queue
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import psutil

from mpsprobe_atlas.store import Key, Row
from mpsprobe_atlas.sweep.working import failed, from_text
from mpsprobe_coverage.commands.child import Child, ChildEnded, threads_for

ATTEMPTS = 3
"""How often a row is tried whose process dies: somebody may have ended that."""
EACH = 200
"""Rows that one process works out before a new one takes over, which has none of their memory and needs ten seconds."""
POLL_S = 0.2
SHARE = 0.75  # of the machine's memory, for all processes together
VARIABLES = {"PYTHONHASHSEED": "0"}


@dataclass(frozen=True, slots=True)
class Limits:
    """What one row may take.

    Attributes:
        seconds: of time.
        memory: bytes, of its process.
    """

    seconds: float
    memory: int


def usual_memory(jobs: int) -> int:
    """The limit in bytes where nobody says one: the processes together may have most of the machine's memory."""
    return int(psutil.virtual_memory().total * SHARE / jobs)


class _Looking:
    """Looks at the memory of one process after the other."""

    def __init__(self, most: int) -> None:
        self.most, self.peak = most, 0

    def __call__(self, pid: int) -> str | None:
        with suppress(psutil.Error):  # it has ended
            taken = psutil.Process(pid).memory_info().rss
            self.peak = max(self.peak, taken)
            if taken > self.most:
                return f"it took more than {self.most / 2**30:.3g} GB of memory"
        return None


class Worker:
    """A process, and the next one when it has ended; works out one row at a time.

    Args:
        releases: to judge.
        limits: of a row.
        threads: that torch may use.
    """

    def __init__(self, releases: Sequence[str], limits: Limits, threads: int) -> None:
        self._shared = json.dumps({"releases": list(releases)})
        self._limits, self._threads = limits, threads
        self._child: Child | None = None
        self._done = 0
        self._lock = threading.Lock()
        self._ended = False

    def row(self, key: Key, folder: Path) -> Row:
        """The row about ``key``.

        Raises:
            ChildEnded: the process has died, and not because of a limit.
        """
        looking = _Looking(self._limits.memory)
        path = folder / f"{id(self)}.json"
        child = self._ready()
        try:
            child.ask(json.dumps({"key": key, "path": str(path)}), self._limits.seconds, looking)
        except ChildEnded as ended:
            self.close()
            if not ended.by_limit:
                raise
            row = failed(key, ended.message, "Raise --timeout or --memory-limit, and sweep it --again.")
            return replace(row, seconds=self._limits.seconds, peak_bytes=looking.peak or None)
        row = replace(from_text(path.read_bytes()), peak_bytes=looking.peak or None)
        self._done += 1
        if self._done >= EACH or looking.peak > self._limits.memory / 2:
            self.close()
        return row

    def _ready(self) -> Child:
        if self._child is None:
            child = Child("mpsprobe_atlas.sweep.worker", self._shared, self._threads, VARIABLES)
            with self._lock:
                self._child, self._done = child, 0
                if self._ended:
                    child.kill()
            child.wait_until_ready()
        return self._child

    def end(self) -> None:
        """End its process now, and each that comes after it; from any thread."""
        with self._lock:
            self._ended = True
            if self._child is not None:
                self._child.kill()

    def close(self) -> None:
        """Let its process end."""
        with self._lock:
            child, self._child = self._child, None
        if child is not None:
            child.close()


class Local:
    """Works out rows with several processes. Use it in ``with``.

    Args:
        releases: to judge.
        limits: of each row.
        jobs: processes side by side.
    """

    def __init__(self, releases: Sequence[str], limits: Limits, jobs: int) -> None:
        self._workers = [Worker(releases, limits, threads_for(jobs)) for _ in range(jobs)]
        self._left: queue.SimpleQueue[tuple[Key, int]] = queue.SimpleQueue()
        self._rows: queue.SimpleQueue[Row | BaseException] = queue.SimpleQueue()
        self._ended = threading.Event()
        self._threads: list[threading.Thread] = []
        self._open = 0  # rows without a result

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._ended.set()
        for worker in self._workers:
            worker.end()
        for thread in self._threads:
            thread.join()

    def rows(self, keys: Sequence[Key]) -> Iterator[Row]:
        """A row for each of ``keys``, each as soon as it is there."""
        for key in keys:
            self._left.put((key, 1))
        self._open = len(keys)
        with tempfile.TemporaryDirectory(prefix="mpsprobe-") as folder:
            for worker in self._workers[: len(keys)]:
                self._threads.append(threading.Thread(target=self._work, args=(worker, Path(folder)), daemon=True))
                self._threads[-1].start()
            try:
                while self._open:
                    try:
                        found = self._rows.get(timeout=POLL_S)  # a wait without end is deaf to Ctrl-C on Windows
                    except queue.Empty:
                        continue
                    if isinstance(found, BaseException):
                        raise found
                    self._open -= 1
                    yield found
            finally:
                self.__exit__()

    def _work(self, worker: Worker, folder: Path) -> None:
        try:
            while not self._ended.is_set():
                try:
                    key, attempt = self._left.get(timeout=POLL_S)
                except queue.Empty:
                    continue  # a row of another worker may come back
                self._one(worker, folder, key, attempt)
        except BaseException as error:  # noqa: BLE001 - the main thread raises it
            self._rows.put(error)
        finally:
            worker.close()

    def _one(self, worker: Worker, folder: Path, key: Key, attempt: int) -> None:
        try:
            row = worker.row(key, folder)
        except ChildEnded as ended:
            if self._ended.is_set():
                return
            if attempt < ATTEMPTS:
                self._left.put((key, attempt + 1))
                return
            row = failed(key, ended.message, ended.hint)
        self._rows.put(replace(row, attempts=attempt))
