"""Python's search for garbage, kept away from what stays.

Importing a model's library makes hundreds of thousands of objects that stay, and the collector goes through all of them
again and again: for a fifth of the time of a scan of bert-base, its imports included.

What is put aside is not counted by Python's own rule for when to go through everything, which then never does. So that
is done here, when the objects have doubled: many models in one process leave 15 MB each otherwise.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_after_last = 0
"""Objects that the last search through everything left."""


@contextmanager
def collecting_only_new() -> Iterator[Callable[[], None]]:
    """Nothing is collected until the function that ``with`` gives is called; then what was made after that.

    Where a program has switched the collector off, or has put objects aside itself, nothing is changed.
    """
    if not gc.isenabled() or gc.get_freeze_count():
        yield lambda: None
        return

    def begin() -> None:
        global _after_last
        gc.freeze()
        if gc.get_freeze_count() > 2 * _after_last:
            if _after_last:
                gc.unfreeze()
                gc.collect()
                gc.freeze()
            _after_last = gc.get_freeze_count()
        gc.enable()

    gc.disable()
    try:
        yield begin
    finally:
        gc.unfreeze()
        gc.enable()
