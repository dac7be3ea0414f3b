"""What the values of a result are taken for where they are not known, because of the operator that made it.

``assumed_truth`` is what a truth value is taken for: checks of good data hold, and a count is compared as what it is.
``assumed_count`` is how many there are of what a program counts: each element of a mask, or of whole numbers, is one,
but nothing is NaN. Where ones are scattered into zeros, as to choose experts, there are as many as were scattered: so
the numbers of all experts make the whole.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Protocol

from mpsprobe_coverage.knowledge.calls.spec import TensorSpec, spec_of


class Assumed(Protocol):
    """A tensor without values, and what they are taken for."""

    spec: TensorSpec
    assumed_truth: bool
    assumed_count: Fraction | None


Assume = Callable[[Any, Assumed], None]
"""Notes on the result of a call, whose arguments are given too, what its values are taken for."""


def _true(args: Any, result: Assumed) -> None:
    result.assumed_truth = True


def _sum(args: Any, result: Assumed) -> None:
    read = spec_of(args[0])
    each = _count(args[0])
    if each is None and not read.dtype.is_floating_point:
        each = Fraction(1)
    if each is not None and result.spec.numel:
        result.assumed_count = each * read.numel / result.spec.numel


def _same(args: Any, result: Assumed) -> None:
    result.assumed_count = _count(args[0])


def _copied(args: Any, result: Assumed) -> None:
    result.assumed_count = _count(args[1])


def _none(args: Any, result: Assumed) -> None:
    result.assumed_count = Fraction(0)


def _scattered(args: Any, result: Assumed) -> None:
    if len(args) == 4 and isinstance(args[3], int | float) and args[3] == 1 and result.spec.numel:
        result.assumed_count = Fraction(spec_of(args[2]).numel, result.spec.numel)


def _compared(holds: Callable[[Any, Any], bool]) -> Assume:
    def assume(args: Any, result: Assumed) -> None:
        count = _count(args[0])
        if count is not None and isinstance(args[1], int | float):
            result.assumed_truth = holds(count, args[1])

    return assume


def _count(value: Any) -> Fraction | None:
    return getattr(value, "assumed_count", None)


ASSUMPTIONS: dict[str, Assume] = {
    # Checks that hold for data with nothing special in it; `any` and comparisons are taken for False.
    "aten::all": _true,
    "aten::_is_all_true": _true,
    "aten::sum": _sum,
    "aten::max": _same,
    "aten::copy_": _copied,
    "aten::isnan": _none,
    "aten::scatter": _scattered,
    "aten::scatter_": _scattered,
    **{f"aten::{name}": _compared(getattr(operator, name)) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
}
"""By the name of the operator, of all its overloads."""
