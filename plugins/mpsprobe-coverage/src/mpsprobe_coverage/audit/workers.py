"""The runner in several processes, which are spawned: that works on every platform; torch does not survive a fork."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

import torch

from mpsprobe.errors import MpsprobeError
from mpsprobe.progress import SilentProgress
from mpsprobe_coverage.audit.entries import entries
from mpsprobe_coverage.audit.running import Pair, run_entries
from mpsprobe_coverage.device.refusals import Lists
from mpsprobe_coverage.kernels.expectations import load_expectations
from mpsprobe_coverage.kernels.store import load_table

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


def tested_entries(dtype: str, releases: Iterable[str]) -> list[str]:
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
        keys = [key for key in tested_entries(dtype, releases) if not only or key in only]
        pieces = -(-len(keys) // CHUNK)
        found += [Task(dtype, tuple(keys[first::pieces]), tuple(releases), tuple(lists)) for first in range(pieces)]
    return found


def run_tasks(tasks: Sequence[Task], jobs: int, progress: SilentProgress) -> list[Pair]:
    """All pairs, in the order of the tasks; ``jobs`` processes, or this one for 1.

    Raises:
        MpsprobeError: a process ended without a word.
    """
    found: dict[Task, list[Pair]] = {}
    progress.start(len(tasks), "OpInfo entries")
    if jobs == 1 or len(tasks) == 1:
        for task in tasks:
            found[task] = work(task)
            progress.advance(f"OpInfo entries, {task.dtype}")
        _outcomes.clear()
    else:
        with ProcessPoolExecutor(min(jobs, len(tasks)), get_context("spawn"), _start) as pool:
            futures = {pool.submit(work, task): task for task in tasks}
            try:
                for future in as_completed(futures):
                    task = futures[future]
                    found[task] = future.result()
                    progress.advance(f"OpInfo entries, {task.dtype}")
            except BrokenProcessPool as error:
                hint = "Find out which with --jobs 1 and --entry, and report it, please."
                raise MpsprobeError("a process of the audit ended in the middle of an OpInfo entry", hint) from error
            finally:
                pool.shutdown(wait=False, cancel_futures=True)
    return [pair for task in tasks for pair in found[task]]


def work(task: Task) -> list[Pair]:
    """One task, in this process."""
    tables = [load_table(release) for release in task.releases]
    return run_entries(task.keys, task.dtype, tables, lists=task.lists, outcomes=_outcomes)


def _start() -> None:
    torch.set_num_threads(1)  # the processes are as many as the CPUs
