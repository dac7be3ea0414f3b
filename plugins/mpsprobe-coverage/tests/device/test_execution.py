"""An operator runs on the device wherever it runs on the CPU: no internal error, and the same shapes and dtypes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from mpsprobe_coverage.device import VirtualDevice
from mpsprobe_coverage.device.tensor import spec_of

SCALARS: dict[str, Callable[[Any], Any]] = {
    "copysign": lambda x: torch.copysign(x, -3.14),
    "copysign with a tensor": lambda x: torch.copysign(x, torch.tensor(-3.14)),
    "fmod": lambda x: torch.fmod(x, 2.5),
    "remainder": lambda x: torch.remainder(x, 2),
    "floor_divide": lambda x: torch.floor_divide(x, 2.0),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64])
@pytest.mark.parametrize("name", SCALARS)
def test_numbers_and_cpu_scalars_stand_beside_tensors(device: VirtualDevice, name: str, dtype: torch.dtype) -> None:
    values = torch.tensor([1, 2, 3]).to(dtype)
    expected = SCALARS[name](values)
    with device.recording("forward"):
        made = SCALARS[name](values.to("mps"))
    assert spec_of(made) is spec_of(expected)
