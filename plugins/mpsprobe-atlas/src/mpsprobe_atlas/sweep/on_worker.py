"""What the worker of a cluster runs. Its processes wait some time for the next row: to start one takes seconds."""

from __future__ import annotations

import json
import os
import tempfile
import threading
from pathlib import Path

from mpsprobe_atlas.store import Key
from mpsprobe_atlas.sweep.local import Limits, Worker, usual_memory
from mpsprobe_atlas.sweep.working import as_text
from mpsprobe_atlas.tables import tables
from mpsprobe_coverage.commands.child import ChildEnded, threads_for

__all__ = ["end", "tables", "work"]

IDLE_S = 60.0  # after which a process without work ends: the sweep was killed
_idle: dict[str, list[tuple[Worker, threading.Timer]]] = {}
_lock = threading.Lock()


def work(text: str) -> str:
    """The row that ``text`` (JSON) asks for, as JSON; ``died`` where its process did."""
    asked = json.loads(text)
    kind = json.dumps([asked["releases"], asked["seconds"], asked["memory"]])
    worker = _taken(kind)
    if worker is None:
        jobs = os.cpu_count() or 1
        limits = Limits(asked["seconds"], asked["memory"] or usual_memory(jobs))
        worker = Worker(asked["releases"], limits, threads_for(jobs))
    with tempfile.TemporaryDirectory(prefix="mpsprobe-") as folder:
        try:
            row = worker.row(Key(*asked["key"]), Path(folder))
        except ChildEnded as ended:
            return json.dumps({"row": None, "died": ended.message})
        except BaseException:
            worker.end()
            worker.close()
            raise
    _kept(kind, worker)
    return json.dumps({"row": as_text(row)})


def end() -> None:
    """End the processes that wait."""
    with _lock:
        waiting = [one for some in _idle.values() for one in some]
        _idle.clear()
    for worker, timer in waiting:
        timer.cancel()
        worker.end()
        worker.close()


def _taken(kind: str) -> Worker | None:
    with _lock:
        if not _idle.get(kind):
            return None
        worker, timer = _idle[kind].pop()
        timer.cancel()
        return worker


def _kept(kind: str, worker: Worker) -> None:
    timer = threading.Timer(IDLE_S, end)
    timer.daemon = True
    with _lock:
        _idle.setdefault(kind, []).append((worker, timer))
    timer.start()
