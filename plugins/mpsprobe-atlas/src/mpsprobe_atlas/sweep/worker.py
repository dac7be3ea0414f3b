"""A process of a sweep: works out rows as its parent asks, see ``mpsprobe_coverage.commands.child``.

It ends with its parent: a thread reads what that writes, and there is nothing more to read when it is gone.
"""

from __future__ import annotations

import importlib.util
import json
import os
import queue
import signal
import sys
import threading

from mpsprobe.output import write_atomically
from mpsprobe_atlas.store import Key
from mpsprobe_atlas.sweep.working import as_text, worked_out


def main() -> int:
    """Work until the parent has no more, or is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to every process; the parent ends this one
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what models print is no answer
    asked = json.loads(sys.stdin.readline())
    if importlib.util.find_spec("torch") is not None:
        importlib.import_module("torch")  # most of what a start takes
    print("ready", file=answers, flush=True)
    questions: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(questions,), daemon=True).start()
    while True:
        one = json.loads(questions.get())
        row = worked_out(Key(*one["key"]), asked["releases"])
        write_atomically(one["path"], as_text(row))
        print("done", file=answers, flush=True)


def _read(questions: queue.SimpleQueue[str]) -> None:
    for line in sys.stdin:
        questions.put(line)
    os._exit(0)


if __name__ == "__main__":
    main()
