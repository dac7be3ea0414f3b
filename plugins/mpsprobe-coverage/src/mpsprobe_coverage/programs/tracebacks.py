"""Tracebacks as Python prints them without a device: no frames of ours, nor those that ours called in torch.

Imports no torch: Ctrl-C may come while the program imports it.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

OURS = str(Path(__file__).parents[1])
# Around every call of a module, and around the import of torch: what stands below is the program's and torch's.
_AROUND = (str(Path(OURS, "recording", "attribution.py")), str(Path(__file__).with_name("process.py")))


@contextmanager
def without_our_frames(ours: Callable[[str], bool]) -> Iterator[None]:
    """Inside, what Python prints of an exception that nothing caught leaves out the frames of ``ours`` files.

    A hook that the program sets itself gets the traceback as it is.
    """
    hook, threads = sys.excepthook, threading.excepthook

    def excepthook(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
        _strip(error, ours, set())
        hook(kind, error, error.__traceback__)

    def in_thread(arguments: Any) -> None:
        if arguments.exc_value is not None:
            _strip(arguments.exc_value, ours, set())
            value = arguments.exc_value
            arguments = threading.ExceptHookArgs((type(value), value, value.__traceback__, arguments.thread))
        threads(arguments)

    # Who compares the two finds that nobody set one.
    before = sys.excepthook, sys.__excepthook__, threading.excepthook, threading.__excepthook__
    own = hook is sys.__excepthook__, threads is threading.__excepthook__
    sys.excepthook, threading.excepthook = excepthook, in_thread
    sys.__excepthook__ = excepthook if own[0] else before[1]
    threading.__excepthook__ = in_thread if own[1] else before[3]
    try:
        yield
    finally:
        sys.excepthook, sys.__excepthook__, threading.excepthook, threading.__excepthook__ = before


def _strip(error: BaseException | None, ours: Callable[[str], bool], seen: set[int]) -> None:
    """Take our frames out of the tracebacks of ``error`` and of those that it names."""
    if error is None or id(error) in seen:
        return
    seen.add(id(error))
    torch = getattr(sys.modules.get("torch"), "__file__", None)
    in_torch = os.path.dirname(torch) + os.sep if torch else "<"  # noqa: PTH120 - compared with co_filename
    kept = []
    place, below = error.__traceback__, False
    while place is not None:
        file = place.tb_frame.f_code.co_filename
        if ours(file):
            below = below or file not in _AROUND
        elif not (below and file.startswith(in_torch)):
            kept.append(place)
            below = False
        place = place.tb_next
    for place, following in zip(kept, [*kept[1:], None], strict=False):
        place.tb_next = following
    error.__traceback__ = kept[0] if kept else None
    for other in (error.__cause__, error.__context__):
        _strip(other, ours, seen)
