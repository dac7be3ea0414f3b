"""The device in Python and the native one record the same calls, but for what has a reason.

``benchmarks/two_devices.py`` compares every sample of PyTorch's tests, and whole models. Here are a few, each of
another kind: routes of ``#ifdef USE_MPS``, a fallback and its derivative, an operator without a kernel, a question for
the device, values that are read.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[5] / "benchmarks"
ENTRIES = (
    "nn.functional.linear",
    "nn.functional.conv1d",
    "nn.functional.scaled_dot_product_attention",
    "nn.functional.rms_norm",
    "linalg.svd",
    "linalg.lstsq",
    "inner",
    "prod",
    "nn.functional.one_hot",
)


@pytest.mark.thorough
def test_samples_are_recorded_alike() -> None:
    command = [sys.executable, str(BENCHMARKS / "two_devices.py"), "samples", "--processes", "1", "--entries", *ENTRIES]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(ENTRIES)} entries" in done.stdout, "all of them ran"


def test_another_verdict_has_no_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)
    reasons = importlib.import_module("two_devices_explained")
    sizes = "float32[2]", "float32[2]"
    python = reasons.Called("aten::add.Tensor", "native", None, *sizes)
    native = reasons.Called("aten::add_.Tensor", "native", None, *sizes)
    missing = native._replace(verdict="missing")

    def left(*calls: object) -> int:
        one, other = (Counter([call]) for call in calls)
        found = reasons.explained(reasons.Difference("0", "forward", one, other), reasons.Around())
        return int((found.python + found.native).total())

    assert left(python, native) == 0
    assert left(python, missing) == 2
    assert left(python._replace(outputs="float32[3]"), native) == 2
