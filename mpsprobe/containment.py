"""Runs a plugin's code so that what it does to the process ends with it, and so that it cannot wait for ever.

While it runs, what it prints goes to standard error (standard output carries data for a pipe), it reads an empty
standard input (the real one may be the user's report), ``os._exit`` is an ordinary ``SystemExit``, and afterwards the
warnings filter, the standard streams and the working directory are as they were.

A time limit needs a second thread: an alarm signal is not there on Windows, and would not end a call that waits in C.
The plugin runs in the thread and the caller waits, so nothing happens twice at once. One that is late is left behind.
"""

from __future__ import annotations

import contextlib
import io
import os
import queue
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
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


def within_limit(function: Callable[[], Any], seconds: float) -> Any:
    """What ``function`` returns, contained, in a thread of its own; raises what it raises, ``SystemExit`` included.

    Args:
        seconds: the time limit; 0 for none, and then there is no thread either.

    Raises:
        TooLate: it did not end in time. Its thread is told to stop and left behind.
        KeyboardInterrupt: Ctrl-C, while waiting for it.
    """
    if not seconds or threading.current_thread() is _worker.thread:  # a plugin that loads plugins is inside already
        with contained():
            return function()
    worker = _worker.ready()
    with contained():  # by the caller: one that is left behind could not put anything back
        answered = False
        try:
            worker.questions.put(function)
            answer, error = _wait(worker.answers, seconds)
            answered = True
        finally:  # late, or Ctrl-C at any moment: its answer must not become that of the next question
            if not answered:
                _worker.leave_behind()
    if isinstance(error, KeyboardInterrupt):  # its own: Ctrl-C comes to the main thread, above
        raise RuntimeError("it raised KeyboardInterrupt") from error
    if error is not None:
        raise error
    return answer


def _wait(answers: queue.SimpleQueue[tuple[Any, BaseException | None]], seconds: float) -> Any:
    waited = 0.0
    while waited < seconds:
        with contextlib.suppress(queue.Empty):
            return answers.get(timeout=min(SLICE_S, seconds - waited))
        waited += SLICE_S
    raise TooLate(seconds)


class _Worker:
    """One thread that answers questions one by one; a new one after a question that was never answered."""

    def __init__(self) -> None:
        self.thread: threading.Thread | None = None
        self.questions: queue.SimpleQueue[Callable[[], Any] | None] = queue.SimpleQueue()
        self.answers: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()

    def ready(self) -> _Worker:
        if self.thread is None or not self.thread.is_alive():  # it is not alive in a forked child
            self.questions, self.answers = queue.SimpleQueue(), queue.SimpleQueue()
            self.thread = threading.Thread(
                target=_serve, args=(self.questions, self.answers), name="mpsprobe-plugins", daemon=True
            )
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


def _serve(questions: queue.SimpleQueue[Any], answers: queue.SimpleQueue[Any]) -> None:
    while (function := questions.get()) is not None:
        try:
            answers.put((function(), None))
        except BaseException as error:  # noqa: BLE001 - raised again where it was asked
            answers.put((None, error))


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
    streams = sys.stdin, sys.stdout, sys.stderr, sys.__stdout__
    folder = _current_folder()
    real_exit = os._exit
    with warnings.catch_warnings(), _descriptor_1_is_2():
        sys.stdin, sys.stdout, sys.__stdout__ = io.StringIO(), sys.stderr, sys.stderr  # type: ignore[assignment,misc]
        os._exit = _exit_for(os.getpid(), real_exit)  # type: ignore[assignment]
        try:
            yield
        finally:
            os._exit = real_exit
            sys.stdin, sys.stdout, sys.stderr, sys.__stdout__ = streams  # type: ignore[misc]
            if folder is not None and _current_folder() != folder:
                os.chdir(folder)


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
