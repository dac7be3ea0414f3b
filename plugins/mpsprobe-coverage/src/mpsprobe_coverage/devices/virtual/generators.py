"""Random number generators of MPS in Python, while the virtual device is open.

Generators stand for another backend's as well.

``torch.Generator(device="mps")`` and ``torch.mps.get_rng_state()`` end in C++ that a build without MPS does not have.
Generators are CPU ones here that say ``mps:0``: kernels run on the CPU or on meta, where such a generator is accepted,
and the numbers that MPS would draw are not known anyway.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakValueDictionary

import torch

from mpsprobe_coverage.devices.virtual.tensor import stands_for

_Original = torch.Generator
# By the address of what C++ passes on: a generator comes back from there as another Python object.
_of_mps: WeakValueDictionary[int, Any] = WeakValueDictionary()


class _Like(type(_Original)):  # type: ignore[misc]
    """``isinstance(generator, torch.Generator)`` holds for every generator, whoever made it."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _Original)


class MpsGenerator(_Original, metaclass=_Like):
    """What ``torch.Generator`` is while the device is open; of another device it makes a plain one."""

    def __new__(cls, device: Any = "cpu") -> Any:
        if torch.device(device).type != stands_for.type:
            return _Original(device)
        generator = super().__new__(cls, "cpu")  # type: ignore[call-arg]
        _of_mps[generator._cdata] = generator  # type: ignore[attr-defined]
        return generator

    device = property(lambda self: stands_for.device)

    def clone_state(self) -> Any:
        copied = MpsGenerator(stands_for.device)
        copied.set_state(self.get_state())
        return copied


def is_of_mps(value: object) -> bool:
    """Whether ``value`` is a generator of MPS, also after it has been through C++."""
    return isinstance(value, _Original) and value._cdata in _of_mps  # type: ignore[attr-defined]


def default_generator(replace: Callable[[Any, str, Any], None]) -> torch.Generator:
    """The device's own; ``torch.Generator`` makes those of the device until ``replace`` is undone."""
    replace(torch, "Generator", MpsGenerator)
    generator: torch.Generator = MpsGenerator(stands_for.device)
    return generator
