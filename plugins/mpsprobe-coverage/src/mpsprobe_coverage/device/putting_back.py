"""Modules as they were: a run puts other tensors into them, and whatever else their ``forward`` writes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch


@contextmanager
def as_before(modules: Iterable[torch.nn.Module]) -> Iterator[None]:
    """What happens to the attributes of ``modules`` inside is undone; lists, sets and dictionaries among them too."""
    states = []
    for module in modules:
        attributes = vars(module).copy()
        contents = [(held, held.copy()) for held in attributes.values() if isinstance(held, (dict, list, set))]
        states.append((module, type(module), attributes, contents))
    try:
        yield
    finally:
        for module, kind, attributes, contents in states:
            module.__class__ = kind
            vars(module).clear()
            vars(module).update(attributes)
            for held, before in contents:  # handles of hooks point to these very objects
                held.clear()
                held.extend(before) if isinstance(held, list) else held.update(before)
