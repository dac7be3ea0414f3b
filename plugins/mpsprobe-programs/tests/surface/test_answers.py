"""What torch answers about MPS on the native device."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ANSWERS: dict[str, Any] = {
    "questions": {"built": True, "available": [True, True, 1], "processor": True, "storage": "UntypedStorage"},
    "memory": {"taken": [4000, 4000], "given back": 0, "peak": 4000, "total": True},
    "events": {
        "mpsprobe_coverage.device.mps_in_python": True, "torch": True, "accelerator": "mps",
        "stream": "torch.Stream device_type=mps, device_index=0, stream_id=0",
    },
    "storages": {
        "made": "mps:0", "bytes": [1, 2], "moved": "mps:0", "copied": ["mps:0", "mps:0"], "pinned": [True, False],
        "loaded": [["mps:0", "cpu"], ["cpu", "cpu"], ["mps:0", "mps:0"]],
    },
    "randomness": {"same": True, "again": True, "device": "mps:0"},
    "sparse": {
        "gradient": [[2.0, 2.0], [1.0, 1.0]], "product": [[1.0, 0.0], [0.0, 1.0]], "dense": [[2.0, 0.0], [0.0, 2.0]],
        "devices": ["mps:0"],
    },
    "mixed": {"results": "torch.float16", "gradients": ["torch.float32"], "scale": 65536.0},
}  # fmt: skip


@pytest.fixture(scope="module")
def child() -> subprocess.CompletedProcess[str]:
    """The process that asked."""
    script = Path(__file__).with_name("asked_of_torch.py")
    return subprocess.run(
        [sys.executable, "-W", "ignore", script], capture_output=True, text=True, encoding="utf-8", check=False
    )


@pytest.fixture
def answers(child: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """What it was given."""
    assert child.returncode == 0, child.stderr
    found: dict[str, Any] = json.loads(child.stdout)
    return found


@pytest.mark.parametrize("subject", ANSWERS)
def test_torch_answers_as_on_a_mac(subject: str, answers: dict[str, Any]) -> None:
    assert answers[subject] == ANSWERS[subject]


def test_what_only_a_mac_can_do_is_said(answers: dict[str, Any], child: subprocess.CompletedProcess[str]) -> None:
    assert "--device mps on a Mac" in answers["refused"]["shader"]
    assert "Use Tensor.cpu()" in answers["refused"]["numpy"]
    assert answers["refused"]["compiled"] == [0.0, 0.0]
    assert child.stderr.count("torch.compile makes Metal shaders on a Mac") == 1


def test_everything_is_put_back(answers: dict[str, Any]) -> None:
    after = answers["after"]
    assert (after["built"], after["processor"]) == (False, False)
    assert "Storage device not recognized" in after["storage"]
