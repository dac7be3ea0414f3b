"""Modules as they were: a run puts other tensors into them, and whatever else their ``forward`` writes."""

from __future__ import annotations

import operator
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from types import FunctionType, ModuleType
from typing import Any

import torch

_DEEP = 3  # attributes of attributes: a cache in an object of its own
_Cache = type(lru_cache(repr))
_OF_OTHERS = (type, ModuleType, torch.Tensor, torch.nn.Module)


@contextmanager
def as_before(modules: Iterable[torch.nn.Module]) -> Iterator[None]:
    """What happens to the attributes of ``modules`` inside is undone.

    Lists, sets and dictionaries among them are put back too, and those that an object among them has. What their
    methods keep by ``functools.lru_cache``, and functions that the files of their classes know, is not there inside,
    and not afterwards.
    """
    states = []
    kept: dict[int, tuple[Any, list[Any]]] = {}
    modules = [*modules]
    caches = [*_caches({kind for module in modules for kind in type(module).__mro__})]
    for cache in caches:
        cache.cache_clear()
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
        for held, before in kept.values():
            if held or before:  # most are empty, before and after
                _put_back(held, before)
        for cache in caches:
            cache.cache_clear()


def _caches(kinds: Iterable[type]) -> Iterator[Any]:
    """Those of the methods of ``kinds`` and of functions of their files, also where a decorator is around them."""
    files = {kind.__module__ for kind in kinds}
    modules = (sys.modules[file] for file in files if file in sys.modules and not file.startswith("torch."))
    for attribute in (member for owner in (*kinds, *modules) for member in vars(owner).values()):
        # Types alone are asked: a global may be a module that is loaded when an attribute of it is.
        function = attribute.__func__ if type(attribute) in (staticmethod, classmethod) else attribute
        around = _closure(function) if type(function) is FunctionType else ()
        yield from (candidate for candidate in (function, *around) if type(candidate) is _Cache)


def _closure(function: FunctionType) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # it is empty
            yield cell.cell_contents


def _keep(attributes: dict[str, Any], kept: dict[int, tuple[Any, list[Any]]], deep: int) -> None:
    for held in attributes.values():
        if id(held) in kept:
            continue
        if isinstance(held, (dict, list, set)):
            kept[id(held)] = held, _contents(held) if held else []
        elif deep and hasattr(held, "__dict__") and not isinstance(held, _OF_OTHERS):
            inside = vars(held)
            if isinstance(inside, dict) and id(inside) not in kept:
                kept[id(inside)] = inside, _contents(inside)
                _keep(inside, kept, deep - 1)


def _contents(held: Any) -> list[Any]:
    """What is in it; of a dictionary keys and values in turn."""
    return [part for item in held.items() for part in item] if isinstance(held, dict) else [*held]


def _put_back(held: Any, before: list[Any]) -> None:
    """In place: handles of hooks point to these very objects. What did not change is not touched."""
    now = _contents(held)
    if len(now) == len(before) and all(map(operator.is_, now, before)):
        return
    held.clear()
    if isinstance(held, dict):
        for key, value in zip(before[::2], before[1::2], strict=True):
            held[key] = value
    else:
        held.extend(before) if isinstance(held, list) else held.update(before)
