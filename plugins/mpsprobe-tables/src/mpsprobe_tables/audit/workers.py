"""The runner in several processes, which are spawned: that works on every platform; torch does not survive a fork."""

from __future__ import annotations

import faulthandler
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from typing import Any, TypeVar

import torch

from mpsprobe.progress import SilentProgress
from mpsprobe_coverage.knowledge.judging.lists import Lists
from mpsprobe_coverage.knowledge.kernels.mps import load_table
from mpsprobe_tables.audit.entries import entries
from mpsprobe_tables.audit.running import Pair, run_entries
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

    Raises BrokenProcessPool: an entry ended its process (a crash in C++); standard error says which.
    """
    found: list[Pair] = []
    progress.start(len(tasks), WHAT)
    for task, pairs in zip(tasks, in_processes(work, tasks, jobs), strict=True):
        found += pairs
        progress.advance(f"{WHAT}, {task.dtype}")
    _outcomes.clear()
    return found


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
