"""Programs print on the native device what they print on the CPU, to the last digit."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
SCRIPTS = sorted((HERE / "scripts").glob("*.py"))
TIMES = re.compile(r"'[a-z_]*(runtime|per_second)': '[^']*'")  # Trainer prints them


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What all scripts did, in one process for each device."""
    folder = tmp_path_factory.mktemp("programs")
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONWARNINGS": "ignore", "TQDM_DISABLE": "1"}
    children = {
        device: subprocess.Popen(
            [sys.executable, HERE / "run_scripts.py", device, folder / f"{device}.json", *SCRIPTS],
            cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )
        for device in ("cpu", "mps")
    }  # fmt: skip
    for device, child in children.items():
        errors = child.communicate()[1]
        assert child.returncode == 0, f"{device}: {errors[-2000:]}"
    return {device: json.loads((folder / f"{device}.json").read_text(encoding="utf-8")) for device in children}


@pytest.mark.parametrize("script", [path.stem for path in SCRIPTS])
def test_a_program_prints_what_it_prints_on_the_cpu(script: str, results: dict[str, Any]) -> None:
    cpu, mps = (TIMES.sub("", results[device]["printed"][script]) for device in ("cpu", "mps"))
    assert "Traceback" not in cpu
    assert cpu.strip()
    assert mps == cpu


def test_the_programs_ran_on_the_device(results: dict[str, Any]) -> None:
    """Of each kind something that only a program on MPS calls."""
    called = set(results["mps"]["operators"])
    expected = {
        "aten::_mps_convolution", "aten::mps_convolution_backward", "aten::mps_convolution_transpose_backward",
        "aten::linear_backward", "aten::_lstm_mps", "aten::lstm_mps_backward", "aten::_ctc_loss",
        "aten::_scaled_dot_product_attention_math_for_mps", "aten::multinomial", "aten::_fused_adamw_",
    }  # fmt: skip
    assert not expected - called
