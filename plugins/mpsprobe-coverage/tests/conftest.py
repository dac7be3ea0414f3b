"""Opens devices, and makes the modules of these tests importable wherever pytest was started."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mpsprobe_coverage.devices.virtual import VirtualDevice
from mpsprobe_coverage.knowledge.kernels.mps import load_table

ROOMS = (
    "backends",
    "devices/observed",
    "devices/virtual",
    "knowledge/advisories",
    "knowledge/judging",
    "scanning",
    "statements",
)
sys.path[:0] = [str(Path(__file__).parent / room) for room in ROOMS]


@pytest.fixture
def device() -> Iterator[VirtualDevice]:
    """An open virtual device of torch 2.13.0, closed after the test."""
    with VirtualDevice(load_table("2.13.0")) as opened:
        yield opened
