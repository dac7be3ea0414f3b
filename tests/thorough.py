"""Which cases of a test the default run leaves to the thorough one: all but those that it names."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest


def all_but(kept: Callable[..., bool], cases: Iterable[Any]) -> list[Any]:
    """``cases`` for ``parametrize``; those to which (or to whose parts) ``kept`` says no are marked ``thorough``."""
    parts = [case if isinstance(case, tuple) else (case,) for case in cases]
    return [pytest.param(*one, marks=[] if kept(*one) else [pytest.mark.thorough]) for one in parts]


def first_of_each(key: Callable[..., object], cases: Iterable[Any]) -> Callable[..., bool]:
    """For ``all_but``: keeps the first case with each ``key``."""
    first: dict[object, Any] = {}
    for case in cases:
        parts = case if isinstance(case, tuple) else (case,)
        first.setdefault(key(*parts), parts)
    return lambda *parts: parts in first.values()
