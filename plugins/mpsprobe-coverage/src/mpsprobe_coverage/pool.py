"""Questions answered by processes side by side, each with limits of time and memory: several workloads, and sweeps.

The standard input of a process has lines of JSON: first what all questions have in common, then one for each. To its
standard output it writes a line when it is ready, and one with each answer; whatever else is printed in it goes to
standard error.
"""

from __future__ import annotations

import errno
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Self

from mpsprobe.output import as_bytes
from mpsprobe.plugins.registry import get_registry

LOOK_S = 0.2  # between looks at the clock and at what a process takes
POLL_S = 0.2  # between looks at Ctrl-C, which does not end a wait on Windows
PATIENCE = 4  # times what a process needs to start: without two answers until then, a further one starts


@dataclass(frozen=True, slots=True)
class Limits:
    """What one question may take."""

    seconds: float
    memory: int | None = None  # bytes of its process; None: nobody looks


@dataclass(slots=True)
class Answer:
    """What became of a question."""

    text: str | None = None  # None where the process ended before it had answered
    error: str = ""  # why it did
    hint: str | None = None
    by_limit: bool = False  # it was ended because it went beyond a limit
    peak_bytes: int | None = None  # the most memory that its process was seen to have
    attempts: int = 1
    number: int = 0  # of the question, from 0 on


class Worker:
    """A process that answers one question at a time, and the next one when it has ended."""

    def __init__(
        self,
        module: str,  # what it runs, which calls ``serve``
        shared: Any,  # what all questions have in common
        limits: Limits,
        *,
        each: int,  # how many questions one process answers; the next one has none of its memory
        threads: int,  # that torch may use in it
        variables: Mapping[str, str] = {},  # further ones of its environment
    ) -> None:
        self.limits = limits
        self.answered = 0  # by the process that runs
        self._module, self._shared, self._each = module, shared, each
        self._variables = {"OMP_NUM_THREADS": str(threads), **variables}
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._killed = False

    def start(self) -> None:
        """Start a process where none runs, and return when it is ready, or has ended."""
        if self._process is not None and self._process.poll() is None:
            return
        self.close()
        # -P: no file of the current folder stands in for a module, as with the installed script.
        command = [sys.executable, "-P", "-m", self._module]
        environment = {**get_registry().variables(), **self._variables}
        process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        with self._lock:
            self._process, self.answered = process, 0
            if self._killed:
                process.kill()
        self._line(self._shared)

    def answer(self, question: Any) -> Answer:
        """What the process says to ``question``, or why it ended."""
        self.start()
        process = self._process
        assert process is not None
        with self._watched(process) as answer:
            line = self._line(question)
        if line.endswith(b"\n"):
            answer.text = line.decode()
            self.answered += 1
        large = self.limits.memory is not None and (answer.peak_bytes or 0) > self.limits.memory / 2
        if answer.text is None or large or self.answered >= self._each:
            self.close()
        if answer.text is None and not answer.by_limit:
            if process.returncode == errno.ENOMEM:
                answer.error, answer.hint = "its process ran out of memory", "Use fewer --jobs."
            else:
                answer.error = f"its process ended with exit code {process.returncode}"
                answer.hint = "It may have run out of memory: use fewer --jobs."
        return answer

    @contextmanager
    def _watched(self, process: subprocess.Popen[bytes]) -> Iterator[Answer]:
        """Look at the limits meanwhile: a process beyond one is killed, and the answer says so."""
        answer, limits = Answer(), self.limits
        done, started = threading.Event(), time.monotonic()

        def watch() -> None:
            while not done.wait(min(LOOK_S, limits.seconds)):
                if limits.memory is not None:
                    taken = _memory(process.pid)
                    answer.peak_bytes = max(answer.peak_bytes or 0, taken) or None
                    if taken > limits.memory:
                        answer.error, answer.hint = f"it took more than {limits.memory / 2**30:.3g} GB of memory", None
                if time.monotonic() - started > limits.seconds:
                    answer.error, answer.hint = f"it took longer than {limits.seconds:g} s", "Raise --timeout."
                if answer.error:
                    answer.by_limit = True
                    process.kill()
                    return

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        try:
            yield answer
        finally:
            done.set()
            thread.join()

    def kill(self) -> None:
        """End its process now, and each that comes after it; from any thread."""
        with self._lock:
            self._killed = True
            if self._process is not None:
                self._process.kill()

    def close(self) -> None:
        """Let its process end when it is done, and wait for that."""
        with self._lock:
            process, self._process = self._process, None
        if process is None or process.stdin is None or process.stdout is None:
            return
        with suppress(OSError):  # it has ended, and has not read all
            process.stdin.close()
        process.wait()
        process.stdout.close()

    def _line(self, value: Any) -> bytes:
        """The line that the process writes when it has read ``value``; what there is of it where it has ended."""
        assert self._process is not None and self._process.stdin is not None and self._process.stdout is not None
        with suppress(OSError):  # it has ended: the missing answer says so
            self._process.stdin.write(as_bytes(json.dumps(value) + "\n"))
            self._process.stdin.flush()
        return self._process.stdout.readline()


def _memory(pid: int) -> int:
    """Bytes that a process has; 0 when it has ended."""
    import psutil  # of those that set a limit

    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return 0


class Pool:
    """Several workers, each in a thread. Use it in ``with``, which ends all processes.

    A process needs some seconds until its first answer, and then a fraction of one for a small model. So a further one
    starts only where what is left takes longer than that. A question whose process dies, and not by a limit, is asked
    again up to ``attempts`` times: somebody may have ended it. ``others`` are as ``Worker`` takes them.
    """

    def __init__(
        self, module: str, shared: Any, limits: Limits, jobs: int, *, attempts: int = 1, **others: Any
    ) -> None:
        threads = threads_for(jobs)
        self._workers = [Worker(module, shared, limits, threads=threads, **others) for _ in range(jobs)]
        self._attempts = attempts
        self._left: queue.SimpleQueue[tuple[int, Any, int] | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[Answer | BaseException] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._started = 0.0
        self._ready_s = self._first_s = 0.0  # until the first process was ready, and had its first answer
        self._later: list[float] = []  # seconds of answers that were not the first of their process
        self._ended = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._ended = True
        for worker in self._workers:
            worker.kill()
        for _ in self._threads:
            self._left.put(None)
        for thread in self._threads:
            thread.join()

    def answers(self, questions: Sequence[Any]) -> Iterator[Answer]:
        """What becomes of each of ``questions``, each as soon as it is known. To be called once."""
        self._started = time.monotonic()
        for number, question in enumerate(questions):
            self._left.put((number, question, 1))
        for _ in questions:
            answer = self._next()
            if isinstance(answer, BaseException):
                raise answer
            self._first_s = self._first_s or time.monotonic() - self._started
            yield answer

    def _next(self) -> Answer | BaseException:
        while True:
            if self._is_worth_another():
                worker = self._workers[len(self._threads)]
                self._threads.append(threading.Thread(target=self._work, args=(worker,), daemon=True))
                self._threads[-1].start()
            with suppress(queue.Empty):
                return self._answers.get(timeout=POLL_S)

    def _is_worth_another(self) -> bool:
        running, left, later = len(self._threads), self._left.qsize(), [*self._later]
        if running == len(self._workers) or not left:
            return False
        if not later:  # how long one takes in a process that runs
            elapsed = time.monotonic() - self._started
            return running == 0 or elapsed > PATIENCE * running * self._ready_s > 0
        return left * sum(later) / len(later) / running > self._first_s

    def _work(self, worker: Worker) -> None:
        try:
            while (asked := self._left.get()) is not None and not self._ended:
                number, question, attempt = asked
                worker.start()
                self._ready_s = self._ready_s or time.monotonic() - self._started
                is_later, began = worker.answered > 0, time.monotonic()
                answer = worker.answer(question)
                if answer.text is None and not answer.by_limit and attempt < self._attempts and not self._ended:
                    self._left.put((number, question, attempt + 1))
                    continue
                self._later += [time.monotonic() - began] if is_later else []
                answer.attempts, answer.number = attempt, number
                self._answers.put(answer)
        except BaseException as error:  # noqa: BLE001 - the main thread raises it
            self._answers.put(error)
        finally:
            worker.close()


def threads_for(jobs: int) -> int:
    """How many threads each of ``jobs`` processes gets."""
    return max(1, (os.cpu_count() or 1) // jobs)


def serve(prepare: Callable[[Any], Callable[[Any], str]]) -> None:
    """Be such a process: answer until the parent has no more questions, or is gone.

    ``prepare`` gets what all questions have in common, and gives what answers one: with a text of one line.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to every process; the parent ends this one
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what models print is no answer
    respond = prepare(json.loads(sys.stdin.readline()))
    questions: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(questions,), daemon=True).start()
    text = "ready"
    while True:
        answers.write(as_bytes(text + "\n"))
        answers.flush()
        try:
            text = respond(json.loads(questions.get()))
        except MemoryError:  # what is left of a question may take the memory of the next one
            os._exit(errno.ENOMEM)


def raise_where_out_of_memory(error: BaseException) -> None:
    """Raise ``MemoryError``, with which a process of ``serve`` ends, where ``error`` came from a lack of memory."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, MemoryError) or "can't allocate memory" in str(cause):  # as torch says it
            raise MemoryError from error
        cause = cause.__cause__ or cause.__context__


def _read(questions: queue.SimpleQueue[str]) -> None:
    for line in sys.stdin:
        questions.put(line)
    os._exit(0)
