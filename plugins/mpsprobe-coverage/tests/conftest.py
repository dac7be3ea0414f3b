"""Opens devices."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mpsprobe_coverage.device import VirtualDevice
from mpsprobe_coverage.kernels.mps import load_table


@pytest.fixture
def device() -> Iterator[VirtualDevice]:
    """An open virtual device of torch 2.13.0, closed after the test."""
    with VirtualDevice(load_table("2.13.0")) as opened:
        yield opened
