"""Every run draws the same random numbers: else two reports on one model differ where it drops layers by chance."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch

SEED = 0


@contextmanager
def same_numbers() -> Iterator[None]:
    """Inside, the generators of Python, NumPy and torch's CPU begin with ``SEED``; afterwards they go on as before."""
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
