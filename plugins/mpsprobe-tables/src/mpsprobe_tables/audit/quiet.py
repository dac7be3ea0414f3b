"""A process in which OpInfo entries run thousands of times: random state, warnings and torch's test modules."""

from __future__ import annotations

import functools
import random
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import torch


@contextmanager
def undisturbed() -> Iterator[None]:
    """Random numbers of the process stay as they were, and warnings of operators are not shown.

    Two habits of torch's test modules are switched off, which take a third of the time of an audit: looking through the
    stack for a running unit test, and noting the stack at each seed for a GPU that may be initialised later.
    """
    from torch.testing._internal import common_utils
    from torch.testing._internal.opinfo import core

    with ExitStack() as exits:
        exits.callback(random.setstate, random.getstate())
        if common_utils.TEST_NUMPY:
            import numpy

            exits.callback(numpy.random.set_state, numpy.random.get_state())
        exits.enter_context(torch.random.fork_rng(devices=()))
        exits.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        exits.enter_context(patch.object(torch, "manual_seed", _seed))
        for module in (common_utils, core):
            if hasattr(module, "extract_test_fn"):
                exits.enter_context(patch.object(module, "extract_test_fn", _no_test))
        yield


@contextmanager
def other_seeds(shift: int) -> Iterator[None]:
    """Whatever is seeded here gets another seed than it asks for; entries set seeds themselves."""
    with torch.random.fork_rng(devices=()), patch.object(torch, "manual_seed", functools.partial(_seed, shift=shift)):
        _seed(0, shift)
        yield


def _seed(seed: Any, shift: int = 0) -> torch.Generator:
    """The generator of the CPU alone."""
    return torch.default_generator.manual_seed(int(seed) + shift)


def _no_test() -> None:
    """No unit test is running here."""
