"""Runs a plugin's code so that what it does to the process ends with it, and so that it cannot wait for ever.

While it runs, what it prints goes to standard error (standard output carries data for a pipe), it reads an empty
standard input (the real one may be the user's report), ``os._exit`` is an ordinary ``SystemExit``, and afterwards the
warnings filter, the standard streams and the working directory are as they were.

A time limit needs a second thread: an alarm signal is not there on Windows, and would not end a call that waits in C.
The plugin runs in the thread and the caller waits, so nothing happens twice at once. One that is late is left behind.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import os
import queue
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

TIMEOUT_VARIABLE = "MPSPROBE_PLUGIN_TIMEOUT"
TIMEOUT_S = 10.0  # a thin module takes milliseconds; a cold disk and a busy machine still stay far below this
SLICE_S = 0.1  # Windows sees Ctrl-C only between two waits


class TooLate(Exception):
    """The time limit passed; ``seconds`` is what it was."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"it did not end within {seconds:g} s ({TIMEOUT_VARIABLE} sets the limit)")
        self.seconds = seconds


def time_limit() -> float:
    """Seconds that a plugin's import or listing hook may take: ``MPSPROBE_PLUGIN_TIMEOUT``; 0 is no limit.

    What is no number of seconds counts as not given: a typo must not take every command away.
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

    def result(self) -> Any:
        """The answer; raises the error if there is one."""
        if self.error is not None:
            raise self.error
        return self.answer


def within_limit(function: Callable[[], Any], seconds: float) -> Any:
    """What ``function`` returns, contained and within ``seconds``; raises what it raises, ``SystemExit`` included.

    Raises:
        TooLate: it did not end in time.
        KeyboardInterrupt: Ctrl-C, while waiting for it.
    """
    return each_within_limit([function], seconds)[0].result()


def each_within_limit(functions: Sequence[Callable[[], Any]], seconds: float) -> list[Outcome]:
    """What comes of each function, one after the other, each contained and with a limit of its own.

    They run in one thread while this one waits for all of them: handing over each by itself takes a quarter of a
    millisecond, which is as much as a plugin's import.

    Args:
        seconds: the limit of each; 0 for none, and then there is no thread either. One that is late has the error
            ``TooLate``; its thread is told to stop and left behind, and the others get another one.

    Raises:
        KeyboardInterrupt: Ctrl-C, while waiting.
    """
    if not seconds or threading.current_thread() is _worker.thread:  # a plugin that loads plugins is inside already
        return [_alone(function) for function in functions]
    outcomes: list[Outcome] = []
    while len(outcomes) < len(functions):
        outcomes += _together(functions[len(outcomes) :], seconds)
    return outcomes


def _alone(function: Callable[[], Any]) -> Outcome:
    outcome = Outcome()
    started = time.perf_counter_ns()
    try:
        with contained():
            outcome.answer = function()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - the caller's to judge
        outcome.error = error
    outcome.took_ns = time.perf_counter_ns() - started
    return outcome


def _together(functions: Sequence[Callable[[], Any]], seconds: float) -> list[Outcome]:
    """The outcomes up to the end, or up to the first function that is late."""
    batch = _Batch(functions)
    worker = _worker.ready()
    count, ended = 0, False
    with contained():  # by this thread: one that is left behind could not put anything back
        try:
            worker.questions.put(batch)
            while not ended:
                count = len(batch.outcomes)
                ended = batch.done.acquire(timeout=min(SLICE_S, seconds))
                if not ended and count == len(batch.outcomes) and time.monotonic() - batch.begun >= seconds:
                    break
        finally:  # late, or Ctrl-C at any moment
            if not ended:
                batch.left = True
                _worker.leave_behind()
    return batch.outcomes if ended else [*batch.outcomes[:count], Outcome(error=TooLate(seconds))]


class _Batch:
    """Functions for the thread, and what came of them so far."""

    def __init__(self, functions: Sequence[Callable[[], Any]]) -> None:
        self.functions = functions
        self.outcomes: list[Outcome] = []
        self.begun = time.monotonic()
        self.left = False
        self.done = threading.Lock()
        self.done.acquire()

    def run(self) -> None:
        """Run them; after each the process is put back for the next, unless nobody waits any more."""
        before = _State()
        for function in self.functions:
            self.begun, started, outcome = time.monotonic(), time.perf_counter_ns(), Outcome()
            try:
                outcome.answer = function()
            except KeyboardInterrupt as error:  # its own: Ctrl-C comes to the main thread
                outcome.error = RuntimeError("it raised KeyboardInterrupt")
                outcome.error.__cause__ = error
            except BaseException as error:  # noqa: BLE001 - the caller's to judge
                outcome.error = error
            outcome.took_ns = time.perf_counter_ns() - started
            if self.left:
                return
            before.put_back()
            self.outcomes.append(outcome)
        self.done.release()


class _State:
    """What a plugin may change and the next one should not see changed."""

    def __init__(self) -> None:
        self._streams = sys.stdin, sys.stdout, sys.stderr, sys.__stdout__
        self._filters = list(warnings.filters)
        self._folder = _current_folder()
        self._exit = os._exit

    def put_back(self) -> None:
        """As it was when this was made."""
        sys.stdin, sys.stdout, sys.stderr, sys.__stdout__ = self._streams  # type: ignore[misc]
        os._exit = self._exit
        if list(warnings.filters) != self._filters:
            warnings.resetwarnings()
            warnings.filters[:] = self._filters  # type: ignore[index]
        if self._folder is not None and _current_folder() != self._folder:
            with contextlib.suppress(OSError):  # it was deleted meanwhile
                os.chdir(self._folder)


class _Worker:
    """One thread that runs batches one by one; a new one after a batch that did not end."""

    def __init__(self) -> None:
        self.thread: threading.Thread | None = None
        self.questions: queue.SimpleQueue[_Batch | None] = queue.SimpleQueue()

    def ready(self) -> _Worker:
        if self.thread is None or not self.thread.is_alive():  # it is not alive in a forked child
            self.questions = queue.SimpleQueue()
            self.thread = threading.Thread(target=_serve, args=(self.questions,), name="mpsprobe-plugins", daemon=True)
            self.thread.start()
        return self

    def leave_behind(self) -> None:
        """Ask the thread to stop, which it does as soon as it runs Python code; wait for nothing."""
        thread, self.thread = self.thread, None
        self.questions.put(None)  # what it sees if it ever comes back
        if thread is not None and thread.ident is not None:
            import ctypes

            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(SystemExit))


_worker = _Worker()


def _serve(questions: queue.SimpleQueue[_Batch | None]) -> None:
    while (batch := questions.get()) is not None:
        batch.run()


def threads() -> set[threading.Thread]:
    """The threads for which Python would wait at the end of the process; mpsprobe itself has none."""
    if threading.active_count() == 1:
        return set()
    mine = {threading.main_thread(), threading.current_thread()}
    return {one for one in threading.enumerate() if not one.daemon and one not in mine}


_stuck: set[threading.Thread] = set()


def leave_behind(started: set[threading.Thread]) -> None:
    """Remember threads that a plugin started and nobody will stop."""
    _stuck.update(started)


def left_behind() -> bool:
    """Whether one of those is still there, and would keep the process alive after its work is done."""
    return any(one.is_alive() for one in _stuck)


@contextlib.contextmanager
def contained() -> Iterator[None]:
    """Whatever a plugin prints, reads or changes in here does not reach the command around it."""
    before = _State()
    with warnings.catch_warnings(), _descriptor_1_is_2():
        sys.stdin, sys.stdout, sys.__stdout__ = io.StringIO(), sys.stderr, sys.stderr  # type: ignore[assignment,misc]
        os._exit = _exit_for(os.getpid(), os._exit)  # type: ignore[assignment]
        try:
            yield
        finally:
            before.put_back()


def _exit_for(process: int, real_exit: Callable[[int], NoReturn]) -> Callable[[int], NoReturn]:
    """``os._exit`` that ends a child of ``process`` at once, and in ``process`` itself is only an exception."""

    def _exit(status: int) -> NoReturn:
        if os.getpid() != process:
            real_exit(status)
        raise SystemExit(status)

    return _exit


def _current_folder() -> str | None:
    try:
        return os.getcwd()  # noqa: PTH109 - a Path costs more than the question
    except OSError:  # it was deleted
        return None


@contextlib.contextmanager
def _descriptor_1_is_2() -> Iterator[None]:
    """Standard output, for those who write to the descriptor: child processes and libraries in C."""
    try:
        kept = os.dup(1)
    except OSError:  # closed
        yield
        return
    try:
        with contextlib.suppress(OSError):
            os.dup2(2, 1)
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
