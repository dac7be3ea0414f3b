"""Code of a plugin leaves the process as it found it: run once for its imports, and a second time watched."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout

from mpsprobe_devkit.process_state import changed, process_state, put_back
from mpsprobe_devkit.testing.contracts.clauses import Broken, listed, restored

PATIENCE_S = 2.0  # a thread that was asked to stop may need a moment


def refuse_traces(what: str, action: Callable[[], object], *, random_numbers: bool = True) -> None:
    """``action`` changes nothing of the process, prints nothing and leaves no thread behind.

    It is called twice: what its imports change, the first time, is no business of it.

    Args:
        what: the subject of "changes …": "building it for training".
        random_numbers: it may not draw any either.

    Raises:
        Broken: it does; what it changed is named. What can be put back is.
    """
    with restored():
        action()
    with left_as_found(what, random_numbers=random_numbers):
        action()


@contextmanager
def left_as_found(what: str, *, random_numbers: bool = True) -> Iterator[None]:
    """What runs inside leaves the process as it found it, prints nothing and leaves no thread behind.

    What an import inside brings (a thread of a library, a warnings filter) has to be there before: run it once.

    Args:
        what: the subject of "changes …": "building it for training".

    Raises:
        Broken: it does not; what it changed is named. What can be put back is.
    """
    threads, before = set(threading.enumerate()), process_state(random_numbers=random_numbers)
    printed = io.StringIO()
    with redirect_stdout(printed):
        yield
    found = changed(before, process_state(random_numbers=random_numbers))
    put_back(before, found)
    refuse_threads(what, threads)
    if found:
        raise Broken(f"{what} changes {listed(found)}")
    if printed.getvalue():
        raise Broken(f"{what} prints {printed.getvalue()[:60]!r} to standard output, which is for data")


def refuse_threads(what: str, before: set[threading.Thread]) -> None:
    """No thread runs that is not in ``before``, a moment later.

    Raises:
        Broken: one does.
    """
    until = time.monotonic() + PATIENCE_S
    while left := [thread for thread in threading.enumerate() if thread not in before]:
        if time.monotonic() > until:
            raise Broken(f"{what} leaves a thread running: {listed([thread.name for thread in left])}")
        time.sleep(0.01)
