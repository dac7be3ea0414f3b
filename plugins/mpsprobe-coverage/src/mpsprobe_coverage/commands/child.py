"""A process that works on one thing after the other, as its parent asks, and that the parent ends when it has to.

Its standard input gets lines of JSON: first what all have in common, then one for each thing. To its standard output it
writes a line when it is ready, and one for each thing that is done; nothing else is printed there.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from mpsprobe.errors import MpsprobeError
from mpsprobe.output import as_bytes
from mpsprobe.plugins.registry import get_registry

LOOK_S = 0.2  # between looks at the clock, and at what the process takes


class ChildEnded(MpsprobeError):
    """The process has ended before it was done.

    Attributes:
        by_limit: because it went beyond a limit.
    """

    def __init__(self, message: str, hint: str | None, *, by_limit: bool) -> None:
        super().__init__(message, hint)
        self.by_limit = by_limit


class Child:
    """One process. ``kill`` may be called from any thread.

    Args:
        module: that it runs.
        shared: the first line.
        threads: that torch may use in it.
        variables: further ones of its environment.
    """

    def __init__(self, module: str, shared: str, threads: int, variables: dict[str, str] | None = None) -> None:
        environment = {"OMP_NUM_THREADS": str(threads), **get_registry().variables(), **(variables or {})}
        # -P: no file of the current folder stands in for a module, as with the installed script.
        command = [sys.executable, "-P", "-m", module]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe)
        self._send(shared)

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._process.poll() is None

    def wait_until_ready(self) -> None:
        """Return when it is, or has ended."""
        assert self._process.stdout is not None
        self._process.stdout.readline()

    def ask(self, question: str, timeout: float, look: Callable[[int], str | None] | None = None) -> None:
        """Return when what ``question`` asks for is done.

        Args:
            question: a line of JSON.
            timeout: seconds that it may take.
            look: called with the number of the process while it works; says why it has to end.

        Raises:
            ChildEnded: it took longer, ``look`` has a reason, or it has ended by itself.
        """
        assert self._process.stdout is not None
        with self._watched(timeout, look) as reasons:
            self._send(question)
            answer = self._process.stdout.readline()
        if answer:
            return
        code = self._process.wait()
        if reasons:
            raise ChildEnded(reasons[0], "Raise the limit." if look else "Raise --timeout.", by_limit=True)
        hint = "It may have run out of memory: use fewer --jobs."
        raise ChildEnded(f"its process ended with exit code {code}", hint, by_limit=False)

    @contextmanager
    def _watched(self, timeout: float, look: Callable[[int], str | None] | None) -> Iterator[list[str]]:
        reasons: list[str] = []
        done, started = threading.Event(), time.monotonic()

        def watch() -> None:
            while not done.wait(min(LOOK_S, timeout)):
                late = time.monotonic() - started > timeout
                why = f"it took longer than {timeout:g} s" if late else look and look(self.pid)
                if why:
                    reasons.append(why)
                    self.kill()
                    return

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        try:
            yield reasons
        finally:
            done.set()
            thread.join()

    def kill(self) -> None:
        """End it now."""
        self._process.kill()

    def close(self) -> None:
        """Let it end when it is done, and wait for that."""
        assert self._process.stdin is not None and self._process.stdout is not None
        with suppress(OSError):  # it has ended, and has not read all
            self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def _send(self, line: str) -> None:
        assert self._process.stdin is not None
        with suppress(OSError):  # it has ended: the missing answer says so
            self._process.stdin.write(as_bytes(line + "\n"))
            self._process.stdin.flush()


def threads_for(jobs: int) -> int:
    """How many threads each of ``jobs`` processes gets."""
    return max(1, (os.cpu_count() or 1) // jobs)
