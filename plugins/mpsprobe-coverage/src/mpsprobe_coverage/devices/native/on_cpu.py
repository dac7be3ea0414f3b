"""Calls with tensors of the CPU alone, and where their results went, as C++ saw them (``on_cpu.cpp``)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import NamedTuple

import torch

from mpsprobe_coverage.recording.attribution import Origin

_WORDS = 5  # of one site
_MOVED, _FROM_DEVICE, _WEIGHTS = 1, 2, 4


class Site(NamedTuple):
    """Calls of one operator at one place."""

    operator: str
    phase: str
    origin: Origin
    calls: int
    data_bytes: int  # what they read and wrote
    moved: bool = False  # results of theirs came to the device
    from_device: bool = False  # they read what was copied from there
    weights: bool = False  # they read tensors that require a gradient


class OnCpu(NamedTuple):
    sites: Sequence[Site] = ()  # each once
    flows: Iterable[tuple[int, int]] = ()  # positions in ``sites``: the second has read what the first wrote
    device_bytes: int = 0  # what calls on the device read and wrote


def follow(now: bool) -> None:
    """See such calls from now on, or no more; a forked process sees none."""
    if now:
        _stop_in_children()
    torch.ops.mpsprobe.follow_cpu(now)


def seen(place_of: Callable[[int], tuple[str, Origin]]) -> OnCpu:
    """What was seen; ``place_of`` gives phase and origin of a place, by its number."""
    words, names, pairs, device_bytes = torch.ops.mpsprobe.on_cpu()
    sites = []
    for position in range(0, len(words), _WORDS):
        place, name, calls, data_bytes, flags = words[position : position + _WORDS]
        happened = (bool(flags & one) for one in (_MOVED, _FROM_DEVICE, _WEIGHTS))
        sites.append(Site(names[name], *place_of(place), calls, data_bytes, *happened))
    return OnCpu(sites, list(zip(pairs[::2], pairs[1::2], strict=True)), device_bytes)


@cache
def _stop_in_children() -> None:
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lambda: torch.ops.mpsprobe.follow_cpu(False))
