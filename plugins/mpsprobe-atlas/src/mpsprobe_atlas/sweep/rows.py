"""Rows, worked out by processes of this machine, each with limits of time and memory; run, it is such a process.

What goes in and comes out of one is text: names, numbers and packed reports.
"""

from __future__ import annotations

import base64
import importlib.util
import json
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any

import psutil

from mpsprobe.environment import check_version
from mpsprobe.errors import MpsprobeError
from mpsprobe.plugins.registry import get_registry
from mpsprobe.progress import SilentProgress
from mpsprobe.protocols import RunOptions
from mpsprobe.suggestions import first_line, type_name
from mpsprobe_atlas.answers import pack
from mpsprobe_atlas.store import Asked, Key, Row
from mpsprobe_coverage.pool import Answer, Limits, Pool, Worker, raise_where_out_of_memory, serve, threads_for

SEED = 0
ATTEMPTS = 3
"""How often a row is tried whose process dies: somebody may have ended that."""
EACH = 200
"""Rows that one process works out before a new one takes over, which has none of their memory and needs ten seconds."""
SHARE = 0.75  # of the machine's memory, for all processes together
MODULE = "mpsprobe_atlas.sweep.rows"
VARIABLES = {"PYTHONHASHSEED": "0"}
IDLE_S = 60.0  # after which a process without work ends: the sweep was killed
_idle: dict[str, list[tuple[Worker, threading.Timer]]] = {}
_lock = threading.Lock()


def usual_memory(jobs: int) -> int:
    """The limit in bytes where nobody says one: the processes together may have most of the machine's memory."""
    return int(psutil.virtual_memory().total * SHARE / jobs)


def rows_of(asked: Sequence[Asked], limits: Limits, jobs: int) -> Generator[Row]:
    with Pool(MODULE, None, limits, jobs, attempts=ATTEMPTS, each=EACH, variables=VARIABLES) as pool:
        for answer in pool.answers(asked):
            yield row_of(asked[answer.number][0], answer, limits)


def row_of(key: Key, answer: Answer, limits: Limits) -> Row:
    if answer.text is not None:
        row = from_text(answer.text)
    elif answer.by_limit:
        row = failed(key, answer.error, "Raise --timeout or --memory-limit.")
        row = replace(row, seconds=limits.seconds)
    else:
        return failed(key, answer.error, answer.hint, answer.attempts)
    return replace(row, peak_bytes=answer.peak_bytes, attempts=answer.attempts)


def worked_out(key: Key, releases: Sequence[str]) -> Row:
    """The row about ``key``; whatever it raises is in it, but that there is no more memory."""
    started = time.monotonic()
    try:
        row = _answered(key, releases)
    except MpsprobeError as error:
        raise_where_out_of_memory(error)
        row = failed(key, error.message, error.hint)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - one workload of many
        raise_where_out_of_memory(error)
        row = failed(key, f"{type_name(error)}: {first_line(error)}")
    return replace(row, seconds=round(time.monotonic() - started, 3))


def failed(key: Key, error: str, hint: str | None = None, attempts: int = 1) -> Row:
    return Row(*key, state="failed", error=error, hint=hint, attempts=attempts, made=_now())


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def as_text(row: Row) -> str:
    """A row as JSON; ``from_text`` reads it."""
    answer = None if row.answer is None else base64.b64encode(row.answer).decode()
    return json.dumps({**asdict(row), "answer": answer})


def from_text(text: str | bytes) -> Row:
    fields = json.loads(text)
    answer = fields.pop("answer")
    return Row(**fields, answer=None if answer is None else base64.b64decode(answer))


def _answered(key: Key, releases: Sequence[str]) -> Row:
    check_version("torch", "mpsprobe-coverage", "atlas sweep")
    from mpsprobe_coverage.scanning.scan import release_answers

    workload = get_registry().workload(key.workload)
    options = RunOptions(phase=key.phase, dtype=key.dtype, size=key.size)
    # A workload may draw numbers: they are the same whatever was worked out before it.
    importlib.import_module("torch").manual_seed(SEED)
    random.seed(SEED)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(SEED)
    answers = release_answers(workload, options, releases, SilentProgress())
    documents = {release: answer.report.model_dump(mode="json") for release, answer in answers.items()}
    described = next(iter(documents.values()))["workload"]
    return Row(
        *key,
        state="answered",
        made=_now(),
        architecture=described["architecture"],
        parameters=described["parameters"],
        answer=pack(documents, {release: answer.fits for release, answer in answers.items()}),
    )


def _prepared(_: None) -> Callable[[Sequence[Any]], str]:
    if importlib.util.find_spec("torch") is not None:
        importlib.import_module("torch")  # most of what a start takes
    return lambda asked: as_text(worked_out(Key(*asked[0]), asked[1]))


def work(text: str) -> str:
    """On a worker of a cluster, the row that ``text`` (JSON) asks for, as JSON; ``died`` where its process did.

    Its processes wait some time for the next row: to start one takes seconds.
    """
    asked = json.loads(text)
    kind = json.dumps([asked["seconds"], asked["memory"]])
    with _lock:
        worker, timer = _idle[kind].pop() if _idle.get(kind) else (None, None)
    if worker is None or timer is None:
        jobs = os.cpu_count() or 1
        limits = Limits(asked["seconds"], asked["memory"] or usual_memory(jobs))
        worker = Worker(MODULE, None, limits, each=EACH, threads=threads_for(jobs), variables=VARIABLES)
    else:
        timer.cancel()
    try:
        answer = worker.answer([asked["key"], asked["releases"]])
    except BaseException:
        worker.kill()
        worker.close()
        raise
    timer = threading.Timer(IDLE_S, end)
    timer.daemon = True
    with _lock:
        _idle.setdefault(kind, []).append((worker, timer))
    timer.start()
    if answer.text is None and not answer.by_limit:
        return json.dumps({"row": None, "died": answer.error})
    return json.dumps({"row": as_text(row_of(Key(*asked["key"]), answer, worker.limits))})


def end() -> None:
    """End the processes that wait on a worker of a cluster."""
    with _lock:
        waiting = [worker for some in _idle.values() for worker in some]
        _idle.clear()
    for worker, timer in waiting:
        timer.cancel()
        worker.kill()
        worker.close()


if __name__ == "__main__":
    serve(_prepared)
