"""Modules as they were: a run puts other tensors into them, and whatever else their ``forward`` writes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

_DEEP = 3  # attributes of attributes: a cache in an object of its own


@contextmanager
def as_before(modules: Iterable[torch.nn.Module]) -> Iterator[None]:
    """What happens to the attributes of ``modules`` inside is undone.

    Lists, sets and dictionaries among them are put back too, and those that an object among them has.
    """
    states = []
    kept: dict[int, tuple[Any, Any]] = {}
    for module in modules:
        attributes = vars(module).copy()
        _keep(attributes, kept, _DEEP)
        states.append((module, type(module), attributes))
    try:
        yield
    finally:
        for module, kind, attributes in states:
            module.__class__ = kind
            vars(module).clear()
            vars(module).update(attributes)
        for held, before in kept.values():  # handles of hooks point to these very objects
            held.clear()
            held.extend(before) if isinstance(held, list) else held.update(before)


def _keep(attributes: dict[str, Any], kept: dict[int, tuple[Any, Any]], deep: int) -> None:
    for held in attributes.values():
        if id(held) in kept:
            continue
        if isinstance(held, (dict, list, set)):
            kept[id(held)] = held, held.copy()
        elif deep and hasattr(held, "__dict__") and not isinstance(held, (type, torch.Tensor, torch.nn.Module)):
            inside = vars(held)
            if id(inside) not in kept:
                kept[id(inside)] = inside, inside.copy()
                _keep(inside, kept, deep - 1)
