"""From a plan to a store that has all of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mpsprobe.progress import SilentProgress
from mpsprobe.suggestions import printable
from mpsprobe_atlas.store import Key, Row, WritableStore

Source = Callable[[Sequence[Key]], Generator[Row]]
"""Works out a row for each key, each as soon as it is there: by processes of this machine, or by a cluster."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a sweep has done."""

    known: int  # rows that were there before
    answered: int  # rows with an answer, of all
    failed: tuple[Row, ...]  # rows without one, of all
    seconds: float  # that it took
    complete: bool  # whether nothing is left of the plan


def sweep_into(
    path: str | Path,
    about: dict[str, Any],
    keys: Sequence[Key],
    source: Source,
    progress: SilentProgress,
    *,
    again: bool = False,
) -> Outcome:
    """Work out what of ``keys`` has no row in the store at ``path`` yet, or failed and is tried ``again``.

    Each row is durable at once. ``about`` is as ``WritableStore`` takes it.
    """
    started = time.monotonic()
    complete = True
    with WritableStore(path, about) as store:
        known = {row.key for row in store.rows() if row.state == "answered" or not again}
        left = [key for key in keys if key not in known]
        if left:
            complete = _work(store, left, source, progress)
        asked = set(keys)
        rows = [row for row in store.rows() if row.key in asked]
    bad = tuple(row for row in rows if row.state == "failed")
    return Outcome(len(keys) - len(left), len(rows) - len(bad), bad, time.monotonic() - started, complete)


def _work(store: WritableStore, left: Sequence[Key], source: Source, progress: SilentProgress) -> bool:
    started = time.monotonic()
    progress.start(len(left), "starting")
    try:
        with closing(source(left)) as rows:
            for done, row in enumerate(rows, 1):
                store.add(row)
                rate = 60 * done / (time.monotonic() - started)
                progress.advance(f"{rate:.0f} a minute, last {printable(row.workload)} ({row.phase})")
    except KeyboardInterrupt:
        return False
    finally:
        progress.stop()
    return True
