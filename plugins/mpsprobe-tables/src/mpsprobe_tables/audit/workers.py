"""The runner in several processes, which are spawned: that works on every platform; torch does not survive a fork."""

from __future__ import annotations

import faulthandler
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from multiprocessing import get_context, parent_process
from typing import Any, TypeVar

import torch

from mpsprobe.progress import SilentProgress
from mpsprobe_coverage.knowledge.judging.lists import Lists
from mpsprobe_coverage.knowledge.kernels.mps import load_table
from mpsprobe_tables.audit.entries import entries
from mpsprobe_tables.audit.running import FORWARD, Pair, Raised, Ran, run_entries
from mpsprobe_tables.expectations import load_expectations

P = TypeVar("P")
R = TypeVar("R")
WHAT = "OpInfo entries"
CHUNK = 24  # entries that one process takes at a time: few enough that none idles at the end

_outcomes: dict[Any, Any] = {}  # of this process: what operators return is the same in each release


@dataclass(frozen=True, slots=True)
class Task:
    """What one process does at a time."""

    dtype: str
    keys: tuple[str, ...]
    releases: tuple[str, ...]
    lists: tuple[Lists, ...]


def default_jobs() -> int:
    """One process for each CPU that this one may use."""
    asked = getattr(os, "sched_getaffinity", None)
    return len(asked(0)) if asked is not None else (os.cpu_count() or 1)


def entries_to_run(dtype: str, releases: Iterable[str]) -> list[str]:
    """The installed entries that PyTorch's test of one of the releases runs with ``dtype``, or that the CPU takes."""
    expected = [load_expectations(release) for release in releases]
    found = []
    for key, entry in entries().items():
        on_cpu = {str(one).removeprefix("torch.") for one in entry.dtypes}
        if dtype in on_cpu or any(one.tests(key, dtype, on_cpu) for one in expected):
            found.append(key)
    return found


def tasks_for(
    dtypes: Sequence[str], releases: Sequence[str], lists: Sequence[Lists], only: Sequence[str] = ()
) -> list[Task]:
    """The work in pieces, each with entries from all over the database, so that they take about as long."""
    found = []
    for dtype in dtypes:
        keys = [key for key in entries_to_run(dtype, releases) if not only or key in only]
        pieces = -(-len(keys) // CHUNK)
        found += [Task(dtype, tuple(keys[first::pieces]), tuple(releases), tuple(lists)) for first in range(pieces)]
    return found


def in_processes(function: Callable[[P], R], pieces: Sequence[P], jobs: int) -> Iterator[R]:
    """What ``function`` makes of each piece, in order, in ``jobs`` processes, or in this one for 1."""
    if jobs == 1 or len(pieces) == 1:
        yield from map(function, pieces)
    else:
        with ProcessPoolExecutor(jobs, get_context("spawn"), _start) as pool:
            yield from pool.map(function, pieces)


def run_tasks(tasks: Sequence[Task], jobs: int, progress: SilentProgress) -> list[Pair]:
    """All pairs, in the order of the tasks; ``jobs`` processes, or this one for 1.

    An entry that ends its process (a crash in C++) is found and has that as the error of its device.
    """
    found: dict[Task, list[Pair]] = {}
    progress.start(len(tasks), WHAT)
    if jobs == 1 or len(tasks) == 1:
        for task in tasks:
            found[task] = work(task)
            progress.advance(f"{WHAT}, {task.dtype}")
        _outcomes.clear()
    else:
        waiting = deque(tasks)
        while waiting:
            for suspect in _run_until_one_ends(waiting, jobs, found, progress):
                found[suspect] = _alone(suspect)
                progress.advance(f"{WHAT}, {suspect.dtype}")
    return [pair for task in tasks for pair in found[task]]


def _run_until_one_ends(
    waiting: deque[Task], jobs: int, found: dict[Task, list[Pair]], progress: SilentProgress
) -> list[Task]:
    """Work off ``waiting`` into ``found``; the tasks that were running when a process ended, if one does."""
    running: dict[Future[list[Pair]], Task] = {}
    with ProcessPoolExecutor(min(jobs, len(waiting)), get_context("spawn"), _start) as pool:
        try:
            while waiting or running:
                while waiting and len(running) < jobs:
                    running[pool.submit(work, waiting[0])] = waiting[0]
                    waiting.popleft()
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    found[running[future]] = future.result()
                    progress.advance(f"{WHAT}, {running.pop(future).dtype}")
        except BrokenProcessPool:
            return [task for task in running.values() if task not in found]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return []


def _alone(task: Task) -> list[Pair]:
    """A task in a process of its own, and in halves where that ends."""
    try:
        with ProcessPoolExecutor(1, get_context("spawn"), _start) as pool:
            return pool.submit(work, task).result()
    except BrokenProcessPool:
        pass
    if len(task.keys) > 1:
        middle = len(task.keys) // 2
        halves = (replace(task, keys=task.keys[:middle]), replace(task, keys=task.keys[middle:]))
        return [pair for half in halves for pair in _alone(half)]
    ended = Raised(FORWARD, -1, "it ends the process", reference_works=True)
    runs = {(release, mode): Ran((), (ended,)) for release in task.releases for mode in task.lists}
    return [Pair(task.keys[0], task.dtype, runs=runs)]


def work(task: Task) -> list[Pair]:
    """One task, in this process."""
    tables = [load_table(release) for release in task.releases]
    return run_entries(task.keys, task.dtype, tables, lists=task.lists, outcomes=_outcomes)


def _start() -> None:
    faulthandler.enable()  # a kernel that ends the process says on standard error which entry called it
    torch.set_num_threads(1)  # the processes are as many as the CPUs
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A process whose parent was killed would go on for ever: nothing tells it."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
