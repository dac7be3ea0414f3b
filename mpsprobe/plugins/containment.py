"""Runs a plugin's code so that what it does to the process ends with it, and so that a command need not wait for it.

While it runs, what it prints goes to standard error (standard output carries data for a pipe), it reads an empty
standard input (the real one may be the user's report), and afterwards the warnings filter, the standard streams and
the working folder are as they were.

A time limit needs a second thread: an alarm signal is not there on Windows, and would not end a call that waits in C.
The plugin runs in the thread and the caller waits, so nothing happens twice at once. A thread that is late is given up:
it goes on until the command ends, and Python waits neither for it nor for the threads that are started in it. Nothing
here helps against code that ends the process (``os._exit``, a crash) or never gives back the interpreter's lock.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from mpsprobe.plugins.process_state import few_things, put_few_back, threads

TIMEOUT_VARIABLE = "MPSPROBE_PLUGIN_TIMEOUT"
TIMEOUT_S = 10.0  # a thin module takes milliseconds; a cold disk and a busy machine still stay far below this
SLICE_S = 0.1  # Windows sees Ctrl-C only between two waits

_endless: set[threading.Thread] = set()


class Hangs(Exception):
    """It is at work after its time, or has left a thread at work for which Python would wait; the text says which."""


def time_limit() -> float:
    """Seconds that a plugin's import or listing hook may take: ``MPSPROBE_PLUGIN_TIMEOUT``; 0 is no limit.

    What is not a number of seconds counts as not given: a typo must not take every command away.
    """
    try:
        seconds = float(os.environ.get(TIMEOUT_VARIABLE, TIMEOUT_S))
    except ValueError:
        return TIMEOUT_S
    return seconds if 0 <= seconds < threading.TIMEOUT_MAX else TIMEOUT_S


@dataclasses.dataclass(slots=True)
class Outcome:
    """What came of a function: its answer or what it raised, and how long it took in ns."""

    answer: Any = None
    error: BaseException | None = None
    took_ns: int = 0


def each_within_limit(functions: Sequence[Callable[[], Any]], seconds: float) -> list[Outcome]:
    """What comes of each function, one after the other, each contained and with a limit of its own.

    Args:
        seconds: the limit of each; 0 for none, and then there is no thread either. One that is late has the error
            ``Hangs``; its thread is given up, and the others get another one.

    Raises:
        KeyboardInterrupt: Ctrl-C, while waiting.
        Hangs: a plugin asked for it in a thread that was given up meanwhile.
    """
    outcomes: list[Outcome] = []
    if isinstance(inside := threading.current_thread(), _Thread):  # a plugin that loads plugins is contained already
        _run(functions, outcomes, inside.waiting)
        if len(outcomes) < len(functions):
            raise Hangs("nobody waits for it any more")
        return outcomes
    with contained():
        if not seconds:
            _run(functions, outcomes, threading.Lock())
        while len(outcomes) < len(functions):
            outcomes += _together(functions[len(outcomes) :], seconds)
    return outcomes


class _Thread(threading.Thread):
    """A thread in which plugins run; ``waiting`` is free while somebody waits for their outcomes."""

    def __init__(self, functions: Sequence[Callable[[], Any]], outcomes: list[Outcome]) -> None:
        self.waiting = threading.Lock()
        super().__init__(target=_run, args=(functions, outcomes, self.waiting), name="mpsprobe-plugins", daemon=True)


def _together(functions: Sequence[Callable[[], Any]], seconds: float) -> list[Outcome]:
    """The outcomes up to the end, or up to the first function that is late."""
    outcomes: list[Outcome] = []
    thread = _Thread(functions, outcomes)
    count, begun = 0, time.monotonic()
    try:
        thread.start()  # Ctrl-C may come before it returns
        while thread.is_alive():
            thread.join(min(SLICE_S, seconds))
            if len(outcomes) > count:
                count, begun = len(outcomes), time.monotonic()
            elif thread.is_alive() and time.monotonic() - begun >= seconds:
                sys.setswitchinterval(1e-4)  # a loop that never ends takes half of the interpreter, in turns
                late = Hangs(f"it did not end within {seconds:g} s ({TIMEOUT_VARIABLE} sets the limit)")
                return [*outcomes[:count], Outcome(error=late)]
        return outcomes
    finally:  # also after Ctrl-C; a thread that ends now changes nothing any more
        thread.waiting.acquire()


def _run(functions: Sequence[Callable[[], Any]], outcomes: list[Outcome], waiting: threading.Lock) -> None:
    """Add the outcome of each; after each the process is put back for the next.

    Args:
        waiting: free while somebody waits for the outcomes.
    """
    main = threading.current_thread() is threading.main_thread()
    before = few_things()
    for function in functions:
        running, started, outcome = threads(daemon=False), time.perf_counter_ns(), Outcome()
        try:
            outcome.answer = function()
        except KeyboardInterrupt as error:
            if main:
                raise
            outcome.error = RuntimeError("it raised KeyboardInterrupt")  # its own: Ctrl-C comes to the main thread
            outcome.error.__cause__ = error
        except BaseException as error:  # noqa: BLE001 - the caller's to judge
            outcome.error = error
        outcome.took_ns = time.perf_counter_ns() - started
        if not main and (left := threads(daemon=False) - running):
            _endless.update(left)
            outcome.error = outcome.error or Hangs("it left a thread running; one that waits should be a daemon")
        if not waiting.acquire(blocking=False):
            return
        put_few_back(before)
        outcomes.append(outcome)
        waiting.release()


def keeps_alive() -> bool:
    """Whether a thread that a plugin left behind would keep the process from ending."""
    return any(one.is_alive() for one in _endless)


@contextlib.contextmanager
def contained() -> Iterator[None]:
    """Whatever a plugin prints, reads or changes in here does not reach the command around it."""
    before = few_things()
    with warnings.catch_warnings(), _descriptors_are_kept():
        sys.stdin, sys.stdout, sys.__stdout__ = io.StringIO(), sys.stderr, sys.stderr  # type: ignore[assignment,misc]
        try:
            yield
        finally:
            put_few_back(before)


@contextlib.contextmanager
def _descriptors_are_kept() -> Iterator[None]:
    """Inside, standard output is standard error, also for child processes and libraries in C.

    Afterwards all three descriptors are what they were: one that a plugin closes would be that of the next file.
    """
    kept = {}
    for number in range(3):
        with contextlib.suppress(OSError):  # closed
            kept[number] = os.dup(number)
    try:
        if 1 in kept:
            with contextlib.suppress(OSError):
                os.dup2(2, 1)
        yield
    finally:
        for number, copy in kept.items():
            os.dup2(copy, number, inheritable=True)
            os.close(copy)
