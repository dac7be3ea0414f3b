"""Random number generators and events of MPS in Python, while the virtual device is open.

Generators stand for another backend's as well.

``torch.Generator(device="mps")``, ``torch.mps.get_rng_state()`` and ``torch.mps.Event()`` end in C++ that a build
without MPS does not have. Generators are CPU ones here that say ``mps:0``: kernels run on the CPU or on meta,
where such a generator is accepted, and the numbers that MPS would draw are not known anyway.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakValueDictionary

import torch

from mpsprobe_coverage.device.tensor import stands_for

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


class Event:
    """``torch.mps.Event``: nothing runs, so everything has happened already."""

    def __init__(self, enable_timing: bool = False) -> None:
        self.enable_timing = enable_timing

    def record(self) -> None:
        """Nothing is pending."""

    wait = synchronize = record

    def query(self) -> bool:
        return True

    def elapsed_time(self, end_event: Any) -> float:
        """Milliseconds between two events; 0, since nothing was computed."""
        del end_event
        return 0.0


def is_of_mps(value: object) -> bool:
    """Whether ``value`` is a generator of MPS, also after it has been through C++."""
    return isinstance(value, _Original) and value._cdata in _of_mps  # type: ignore[attr-defined]


def random_numbers_in_python(replace: Callable[[Any, str, Any], None]) -> None:
    """Replace what reaches for the MPS generator; ``replace(owner, name, value)`` also undoes it later."""
    default: Any = MpsGenerator(stands_for.device)
    replace(torch, "Generator", MpsGenerator)
    if stands_for.type != "mps":  # the module of another backend draws no number here: it has no device
        return
    replace(torch.mps, "_get_default_mps_generator", lambda: default)
    # torch.manual_seed calls it on every build, and on one without MPS it returns before it seeds.
    replace(torch.mps, "manual_seed", lambda seed: default.manual_seed(int(seed)) and None)
    replace(torch.mps, "Event", Event)
    replace(torch.mps.event, "Event", Event)
