"""What a scan sets in its process, and puts back: the search for garbage, random numbers, threads."""

from __future__ import annotations

import gc
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

SEED = 0
_after_last = 0  # objects that the last search through everything left


@contextmanager
def collecting_only_new() -> Iterator[Callable[[], None]]:
    """Nothing is collected until the function that ``with`` gives is called; then what was made after that.

    Importing a model's library makes hundreds of thousands of objects that stay, and the collector goes through all of
    them again and again: for a fifth of the time of a scan of bert-base, its imports included. Where a program has
    switched the collector off, or has put objects aside itself, nothing is changed.
    """
    if not gc.isenabled() or gc.get_freeze_count():
        yield lambda: None
        return

    def begin() -> None:
        global _after_last
        gc.freeze()
        # Python's rule for when to go through everything does not count what is put aside. So that is done here, when
        # the objects have doubled: many models in one process leave 15 MB each otherwise.
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


@contextmanager
def same_numbers() -> Iterator[None]:
    """Inside, the generators of Python, NumPy and torch's CPU begin with ``SEED``; afterwards they go on as before.

    Else two reports on one model differ where it drops layers by chance.
    """
    numpy = sys.modules.get("numpy")
    state, state_of_numpy = random.getstate(), numpy and numpy.random.get_state()
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(SEED)
        random.seed(SEED)
        if numpy:
            numpy.random.seed(SEED)
        try:
            yield
        finally:
            random.setstate(state)
            if numpy:
                numpy.random.set_state(state_of_numpy)


@contextmanager
def one_thread() -> Iterator[None]:
    """The values that are known are few: to wake other threads for them takes longer than to compute them."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
