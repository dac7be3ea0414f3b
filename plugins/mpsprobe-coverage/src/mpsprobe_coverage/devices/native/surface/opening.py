"""Opens what Python asks torch about MPS, for as long as the device is open."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from mpsprobe_coverage.devices.native.surface.compiling import compiled_eagerly
from mpsprobe_coverage.devices.native.surface.shaders import without_metal
from mpsprobe_coverage.devices.native.surface.storages import storages_on_mps
from mpsprobe_coverage.devices.virtual.mps_in_python import machine_or_usual, mps_in_python
from mpsprobe_coverage.knowledge.chips.limits import limits_of

_MISSING = object()


@contextmanager
def mps_surface(chip: str | None = None) -> Iterator[None]:
    """Make Python's side of torch answer as on a Mac with ``chip``; C++ answers for itself (``native/device.cpp``)."""
    before: list[tuple[Any, str, Any]] = []

    def replace(owner: Any, name: str, value: Any) -> None:
        before.append((owner, name, vars(owner).get(name, _MISSING)))
        setattr(owner, name, value)

    limits = limits_of(machine_or_usual(chip))
    torch.ops.mpsprobe.set_limits(limits.recommended.low, limits.largest_buffer.low)
    try:
        mps_in_python(replace, torch.ops.mpsprobe.default_generator(), torch._C._mps_currentAllocatedMemory, chip=chip)
        without_metal(replace)
        storages_on_mps(replace)
        compiled_eagerly(replace)
        yield
    finally:
        for owner, name, value in reversed(before):
            if value is _MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, value)
