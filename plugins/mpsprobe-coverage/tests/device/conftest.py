"""Makes the written-down expectations importable wherever pytest was started, and opens devices."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mpsprobe_coverage.device import VirtualDevice
from mpsprobe_coverage.kernels.store import load_table

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def device() -> Iterator[VirtualDevice]:
    """An open virtual device of torch 2.13.0, closed after the test."""
    with VirtualDevice(load_table("2.13.0")) as opened:
        yield opened
