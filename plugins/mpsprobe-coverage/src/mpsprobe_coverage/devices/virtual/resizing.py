"""Tensors too large for a reference: the call runs on small ones of the same rank, and its sizes are worked out.

Each large size becomes a prime of its own, three times with different primes. What fits two runs (``n``, ``2 * n``,
``n - 1``, ``n * m``, ``n * n``) and says what the third one gives is the size of the result; where nothing does, it is
not known.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations_with_replacement
from math import prod
from typing import Any

import torch

from mpsprobe_coverage.devices.virtual.tensor import mapped
from mpsprobe_coverage.knowledge.calls.spec import TensorSpec, interned, spec_of, tensors_in

_SMALL = 16
MOST_FACTORS = 4
"""Large sizes of which a size of a result is the product: all elements of a batch of images, say."""
_PRIMES = ((17, 19, 23, 29, 31), (37, 41, 47, 59, 67), (43, 53, 61, 71, 73))

Sizes = Callable[[torch.Tensor], TensorSpec]


def on_smaller(run: Callable[[Any, Any, Sizes], Any], args: Any, kwargs: Any) -> Any:
    """What ``run(args, kwargs, sizes)`` returns, specs in any container, as if its arguments had been small.

    ``run`` is called with the tensors of the call, each of which it takes for one of the spec ``sizes(tensor)``.
    Numbers equal to a large size are small already.

    Raises:
        NotImplementedError: sizes do not follow from those of the arguments.
        Exception: what ``run`` raises.
    """
    large = sorted({size for tensor in tensors_in((args, kwargs)) for size in spec_of(tensor).shape if size > _SMALL})
    if not 0 < len(large) <= len(_PRIMES[0]):
        raise NotImplementedError("its sizes cannot be replaced by small ones")
    small = [dict(zip(large, primes, strict=False)) for primes in _PRIMES]
    first, second, third = (_run(run, args, kwargs, to) for to in small)
    if _at(small[2], first, second, small) != third:
        raise NotImplementedError("a size of the result does not follow from those of the arguments")
    return _at({size: size for size in large}, first, second, small)


def _run(run: Callable[[Any, Any, Sizes], Any], args: Any, kwargs: Any, to: dict[int, int]) -> Any:
    def sizes(tensor: torch.Tensor) -> TensorSpec:
        spec = spec_of(tensor)
        shape = tuple(to.get(size, size) for size in spec.shape)
        return interned(shape, _strides(shape, spec), spec.dtype)

    small_args, small_kwargs = mapped(lambda v: to.get(v, v) if type(v) is int else v, (args, kwargs))
    return run(small_args, small_kwargs, sizes)


def _strides(shape: tuple[int, ...], like: TensorSpec) -> tuple[int, ...]:
    """Dense strides in the order of those of ``like``, with zeros where those have zeros."""
    strides, step = [0] * len(shape), 1
    for position in sorted(range(len(shape)), key=lambda p: (like.stride[p], -p)):
        if like.stride[position]:
            strides[position] = step
            step *= max(shape[position], 1)
    return tuple(strides)


def _at(sizes: dict[int, int], first: Any, second: Any, small: list[dict[int, int]]) -> Any:
    """What the run gives at ``sizes``, after what it gave at the first two of ``small``."""
    if isinstance(first, TensorSpec):
        shape = tuple(_size(sizes, *pair, small) for pair in zip(first.shape, second.shape, strict=True))
        return interned(shape, _strides(shape, first), first.dtype)
    if isinstance(first, dict):
        return {name: _at(sizes, item, second[name], small) for name, item in first.items()}
    if isinstance(first, (tuple, list)):
        if len(first) != len(second):
            raise NotImplementedError("how many results there are follows from a size")
        return type(first)(_at(sizes, *pair, small) for pair in zip(first, second, strict=True))
    return _size(sizes, first, second, small) if type(first) is int else first


def _size(sizes: dict[int, int], first: int, second: int, small: list[dict[int, int]]) -> int:
    if first == second:
        return first
    lines = []
    for count in range(1, MOST_FACTORS + 1):
        for factors in combinations_with_replacement(small[0], count):
            one, other, asked = (prod(to[size] for size in factors) for to in (small[0], small[1], sizes))
            slope, rest = divmod(second - first, other - one)
            if rest == 0:
                lines.append((abs(first - slope * one), first + slope * (asked - one)))
    if not lines:
        raise NotImplementedError("a size of the result does not follow from those of the arguments")
    return min(lines)[1]
