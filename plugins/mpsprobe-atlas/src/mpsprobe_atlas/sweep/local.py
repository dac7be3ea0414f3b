"""Rows worked out by processes of this machine, each with limits of time and memory."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace

import psutil

from mpsprobe_atlas.store import Key, Row
from mpsprobe_atlas.sweep.working import failed, from_text
from mpsprobe_coverage.pool import Answer, Limits, Pool, Worker

ATTEMPTS = 3
"""How often a row is tried whose process dies: somebody may have ended that."""
EACH = 200
"""Rows that one process works out before a new one takes over, which has none of their memory and needs ten seconds."""
SHARE = 0.75  # of the machine's memory, for all processes together
MODULE = "mpsprobe_atlas.sweep.working"
VARIABLES = {"PYTHONHASHSEED": "0"}


def usual_memory(jobs: int) -> int:
    """The limit in bytes where nobody says one: the processes together may have most of the machine's memory."""
    return int(psutil.virtual_memory().total * SHARE / jobs)


def rows_of(keys: Sequence[Key], releases: Sequence[str], limits: Limits, jobs: int) -> Generator[Row]:
    """A row for each of ``keys``, each as soon as it is there, by ``jobs`` processes side by side."""
    with Pool(MODULE, [*releases], limits, jobs, attempts=ATTEMPTS, each=EACH, variables=VARIABLES) as pool:
        for answer in pool.answers(keys):
            yield row_of(keys[answer.number], answer, limits)


def worker_of(releases: Sequence[str], limits: Limits, threads: int) -> Worker:
    """One such process."""
    return Worker(MODULE, [*releases], limits, each=EACH, threads=threads, variables=VARIABLES)


def row_of(key: Key, answer: Answer, limits: Limits) -> Row:
    """The row that a process has answered with, or of its failure."""
    if answer.text is not None:
        row = from_text(answer.text)
    elif answer.by_limit:
        row = failed(key, answer.error, "Raise --timeout or --memory-limit, and sweep it --again.")
        row = replace(row, seconds=limits.seconds)
    else:
        return failed(key, answer.error, answer.hint, answer.attempts)
    return replace(row, peak_bytes=answer.peak_bytes, attempts=answer.attempts)
