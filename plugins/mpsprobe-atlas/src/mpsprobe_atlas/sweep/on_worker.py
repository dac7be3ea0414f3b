"""What the worker of a cluster runs. Its processes wait some time for the next row: to start one takes seconds."""

from __future__ import annotations

import json
import os
import threading

from mpsprobe_atlas.store import Key
from mpsprobe_atlas.sweep.rows import as_text, row_of, usual_memory, worker_of
from mpsprobe_coverage.pool import Limits, Worker, threads_for
from mpsprobe_coverage.rules import digest

__all__ = ["digest", "end", "work"]

IDLE_S = 60.0  # after which a process without work ends: the sweep was killed
_idle: dict[str, list[tuple[Worker, threading.Timer]]] = {}
_lock = threading.Lock()


def work(text: str) -> str:
    """The row that ``text`` (JSON) asks for, as JSON; ``died`` where its process did."""
    asked = json.loads(text)
    kind = json.dumps([asked["releases"], asked["seconds"], asked["memory"]])
    with _lock:
        worker, timer = _idle[kind].pop() if _idle.get(kind) else (None, None)
    if worker is None or timer is None:
        jobs = os.cpu_count() or 1
        limits = Limits(asked["seconds"], asked["memory"] or usual_memory(jobs))
        worker = worker_of(asked["releases"], limits, threads_for(jobs))
    else:
        timer.cancel()
    try:
        answer = worker.answer(asked["key"])
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
    """End the processes that wait."""
    with _lock:
        waiting = [one for some in _idle.values() for one in some]
        _idle.clear()
    for worker, timer in waiting:
        timer.cancel()
        worker.kill()
        worker.close()
