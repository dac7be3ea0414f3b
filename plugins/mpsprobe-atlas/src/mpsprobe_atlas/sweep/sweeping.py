"""From a plan to a store that has all of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from mpsprobe.progress import SilentProgress
from mpsprobe.suggestions import printable
from mpsprobe_atlas.store import Key, Row, WritableStore


class Source(Protocol):
    """What works out rows: processes of this machine, or a cluster."""

    def rows(self, keys: Sequence[Key]) -> Iterator[Row]:
        """A row for each of ``keys``, each as soon as it is there."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a sweep has done.

    Attributes:
        known: rows that were there before.
        failed: rows without an answer, of all.
        answered: rows with one, of all.
        seconds: that it took.
        complete: whether nothing is left of the plan.
    """

    known: int
    answered: int
    failed: tuple[Row, ...]
    seconds: float
    complete: bool


def sweep_into(
    path: str | Path,
    about: dict[str, Any],
    keys: Sequence[Key],
    open_source: Callable[[], AbstractContextManager[Source]],
    progress: SilentProgress,
    *,
    again: bool = False,
) -> Outcome:
    """Work out what of ``keys`` has no row in the store at ``path`` yet; each row is durable at once.

    Args:
        about: what the store says about itself; see ``WritableStore``.
        open_source: opened only when there is something to do.
        again: work out those that failed too.

    Raises:
        MpsprobeError: the store or the source cannot be used.
    """
    started = time.monotonic()
    complete = True
    with WritableStore(path, about) as store:
        failed = {row.key for row in store.rows() if row.state == "failed"} if again else set()
        missing = set(store.missing(keys))
        left = [key for key in keys if key in missing or key in failed]
        if left:
            complete = _work(store, left, open_source, progress)
        asked = set(keys)
        rows = [row for row in store.rows() if row.key in asked]
    bad = tuple(row for row in rows if row.state == "failed")
    return Outcome(len(keys) - len(left), len(rows) - len(bad), bad, time.monotonic() - started, complete)


def _work(
    store: WritableStore,
    left: Sequence[Key],
    open_source: Callable[[], AbstractContextManager[Source]],
    progress: SilentProgress,
) -> bool:
    started = time.monotonic()
    progress.start(len(left), "starting")
    try:
        with open_source() as source:
            for done, row in enumerate(source.rows(left), 1):
                store.add(row)
                rate = 60 * done / (time.monotonic() - started)
                progress.advance(f"{rate:.0f} a minute, last {printable(row.workload)} ({row.phase})")
    except KeyboardInterrupt:
        return False
    finally:
        progress.stop()
    return True
