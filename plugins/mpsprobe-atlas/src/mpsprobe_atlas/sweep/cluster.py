"""Rows worked out by the workers of a Dask cluster that somebody else has started.

What we give to Dask is JSON as text, and what it gives back is JSON as text: names, numbers and packed reports, never a
model. (Dask pickles its own messages around that, and finds our function by its name.) Each worker runs a row in a
process of its own, with the same limits as on one machine.

Each row is given to one worker by its address, so that it is known which rows were at one that has gone.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple, Self

import click

from mpsprobe.environment import installed
from mpsprobe.errors import MissingPackage, MpsprobeError, UsageError
from mpsprobe.suggestions import first_line, printable
from mpsprobe_atlas.store import Asked, Row
from mpsprobe_atlas.sweep.rows import ATTEMPTS, end, failed, from_text, work
from mpsprobe_atlas.sweep.sweeping import LIBRARIES
from mpsprobe_coverage.rules import worked_out

POLL_S = 0.02
LOOK_S = 0.5  # between looks at which workers there are
CONNECT_S = 15
OF_DASK = ("dask", "distributed")
COMPARED = (*OF_DASK, "mpsprobe", "mpsprobe-coverage", "mpsprobe-atlas", "torch", "transformers", *LIBRARIES)
GONE = "Every row up to now is kept: start the same sweep again when the cluster is there."
INSTALL = "Install the same versions there, or sweep on this machine: leave --scheduler out."


class _Given(NamedTuple):
    asked: Asked
    attempt: int
    worker: str
    future: Any


class Cluster:
    """Works out rows on the cluster of a scheduler. Use it in ``with``.

    Without a limit of ``memory``, a row may take each worker's own share of its machine.
    """

    def __init__(self, address: str, seconds: float, memory: int | None) -> None:
        self._address = printable(address)
        self._limits = {"seconds": seconds, "memory": memory}
        self._client = _connected(address)
        self._digest = rules_digest()
        self._known: dict[str, str | None] = {}  # workers, with what is wrong with them
        self._threads: dict[str, int] = {}
        self._looked = 0.0
        try:
            wrong = _different(self._client.get_versions()["scheduler"]["packages"], OF_DASK)
            if wrong:
                raise UsageError(f"the Dask scheduler {self._address} has {wrong}", INSTALL)
            self._look()
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        with suppress(Exception):  # the cluster may be gone
            self._client.run(end, workers=[*self._threads])
        with suppress(Exception):
            self._client.close(timeout=5)

    def rows(self, asked: Sequence[Asked]) -> Generator[Row]:
        left = [(key, 1, "") for key in reversed(asked)]
        given: list[_Given] = []
        while left or given:
            if time.monotonic() - self._looked > LOOK_S:
                self._look()
            free = self._free(given)[: len(left)]
            given += [self._give(*_not_at(worker, left), worker) for worker in free]
            still: list[_Given] = []
            for task in given:
                outcome = self._outcome(task)
                if outcome is None:
                    still.append(task)
                elif isinstance(outcome, Row):
                    yield outcome
                elif task.attempt < ATTEMPTS:
                    left.append((task.asked, task.attempt + 1, task.worker))
                else:
                    yield failed(task.asked[0], outcome, "Sweep it --again.", task.attempt)
            given = still
            time.sleep(POLL_S)

    def _free(self, given: Sequence[_Given]) -> list[str]:
        """Workers, each as often as it has threads without work."""
        return [*(Counter(self._threads) - Counter(task.worker for task in given)).elements()]

    def _give(self, asked: Asked, attempt: int, worker: str) -> _Given:
        text = json.dumps({**self._limits, "key": asked[0], "releases": asked[1]})
        future = self._client.submit(work, text, workers=[worker], allow_other_workers=False, pure=False, retries=0)
        return _Given(asked, attempt, worker, future)

    def _outcome(self, task: _Given) -> Row | str | None:
        """The row, why there is none, or None while it is worked on."""
        if task.future.status == "finished":
            try:
                answer = json.loads(task.future.result(timeout=CONNECT_S))
            except Exception as error:  # noqa: BLE001 - the worker went with its answer
                return f"its worker was lost: {first_line(error)}"
            if answer["row"] is None:
                return str(answer["died"])
            return replace(from_text(answer["row"]), attempts=task.attempt)
        if task.future.status in ("error", "cancelled", "lost"):
            return f"its worker was lost ({task.future.status})"
        if task.worker not in self._threads:
            task.future.cancel()
            return f"its worker {task.worker} was lost"
        return None

    def _look(self) -> None:
        """Which workers there are now; new ones have to have our versions."""
        if self._client.status != "running":
            raise MpsprobeError(f"the Dask scheduler {self._address} is gone", GONE)
        try:
            threads = self._client.nthreads()
            new = [worker for worker in threads if worker not in self._known]
            if new:
                self._compare_workers(new)
        except (OSError, TimeoutError, RuntimeError) as error:
            raise MpsprobeError(f"the Dask scheduler {self._address} is gone: {first_line(error)}", GONE) from error
        self._threads = {worker: count for worker, count in threads.items() if self._known.get(worker, "") is None}
        wrong = [reason for worker, reason in self._known.items() if worker in threads and reason is not None]
        if wrong and not self._threads:
            raise UsageError(wrong[0], INSTALL)
        self._looked = time.monotonic()

    def _compare_workers(self, new: Sequence[str]) -> None:
        versions = self._client.get_versions(packages=list(COMPARED))["workers"]
        for worker in new:
            if worker not in versions:
                continue  # it has gone again
            wrong = _different(versions[worker]["packages"], COMPARED)
            if not wrong:
                theirs = self._client.run(rules_digest, workers=[worker]).get(worker)
                wrong = "" if theirs == self._digest else "other rules or kernel tables than are installed here"
            self._known[worker] = f"the Dask worker {worker} has {wrong}" if wrong else None
            if wrong and self._threads:
                click.echo(f"{self._known[worker]}: it gets nothing. {INSTALL}", err=True)


def rules_digest() -> str:
    return worked_out().digest()


def _not_at(worker: str, left: list[tuple[Asked, int, str]]) -> tuple[Asked, int]:
    """The next row, one that was not lost at this worker if there is such."""
    place = next((place for place in reversed(range(len(left))) if left[place][2] != worker), -1)
    asked, attempt, _ = left.pop(place)
    return asked, attempt


def _connected(address: str) -> Any:
    try:
        from distributed import Client
        from distributed.comm.core import connect
    except ImportError as error:
        raise MissingPackage("--scheduler", "mpsprobe-atlas[dask]") from error
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # what matters is said by us

    async def knock() -> None:
        """A client that was not answered waits for itself for twice the time, and prints that."""
        await (await connect(address, timeout=CONNECT_S)).close()  # type: ignore[no-untyped-call]

    try:
        asyncio.run(knock())
        return Client(address, timeout=CONNECT_S, set_as_default=False)  # type: ignore[no-untyped-call]
    except Exception as error:
        hint = "Start one: 'dask scheduler' prints its address, and 'dask worker ADDRESS' is one worker."
        why = first_line(error)
        raise UsageError(f"no Dask scheduler answers at {printable(address)}: {why}", hint) from error


def _different(theirs: Mapping[str, str | None], names: Sequence[str]) -> str:
    """Which of the distributions are of another version there, in words; empty where none is."""
    ours = {name: version.partition("+")[0] for name, (version, _) in installed(names).items()}
    both = [(name, ours.get(name, ""), (theirs.get(name) or "").partition("+")[0]) for name in names]
    return ", ".join(
        f"{name} {there or 'not at all'} (here: {here or 'none'})" for name, here, there in both if here != there
    )
