"""Slow mode and observed fallbacks on a device that is not the CPU: torch's PrivateUse1, in a process of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.forking import run_script

SCRIPT = Path(__file__).with_name("other_device.py")


@pytest.fixture(name="found", scope="module")
def _found() -> Any:
    made = run_script(SCRIPT)
    assert made.code == 0, made.stderr
    return json.loads(made.stdout.splitlines()[-1])


def test_backward_runs_on_a_thread_of_the_device_and_is_seen_there(found: Any) -> None:
    assert found["reason"] is None and found["on the main thread"] is False
    assert found["operators"]["aten::mul"] == 2 * 3  # forward; backward, for each factor
    assert found["products"] == [["fallback", "python"], *[["fallback", "thread 3"]] * 2] * 2
    assert found["phases"] == ["forward", "backward"] * 2
    assert found["modules"] == [["", "forward", 2], ["", "backward", 2]]


def test_each_fallback_is_seen_with_its_bytes(found: Any) -> None:
    (cost,) = found["fallbacks"]
    assert cost["operator"] == "T" and cost["method"] == "observed" and cost["verdict"] == "fallback"
    assert cost["duration_ns"] > 0
    assert found["copies"] == ["CPU to NPY", "NPY to CPU"]
    # Of one step: three products and the sum of two gradients, each two tensors to the CPU and one back, of 48 bytes.
    assert cost["calls"] == 4 and cost["bytes"] == 4 * 3 * 48
