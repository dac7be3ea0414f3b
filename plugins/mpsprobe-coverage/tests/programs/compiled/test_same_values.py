"""Programs print on the native device what they print on the CPU, to the last digit.

As a script, ``python test_same_values.py DEVICE OUT.json SCRIPT…``, this file runs scripts one after another in one
process. They choose ``mps`` where torch says that it is there.
"""

from __future__ import annotations

import io
import json
import os
import re
import runpy
import subprocess
import sys
import traceback
from contextlib import ExitStack, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
import torch

from mpsprobe_coverage.devices.native.device import NativeDevice
from mpsprobe_coverage.knowledge.judging.chain import Chain
from mpsprobe_coverage.knowledge.kernels.mps import MPS_FAMILY
from mpsprobe_coverage.knowledge.kernels.releases import installed_release

SCRIPTS = sorted((Path(__file__).parent / "scripts").glob("*.py"))
TIMES = re.compile(r"'[a-z_]*(runtime|per_second)': '[^']*'")  # Trainer prints them


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What all scripts did, in one process for each device."""
    folder = tmp_path_factory.mktemp("programs")
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONWARNINGS": "ignore", "TQDM_DISABLE": "1"}
    children = {
        device: subprocess.Popen(
            [sys.executable, __file__, device, folder / f"{device}.json", *SCRIPTS],
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
    assert cpu.strip() and "Traceback" not in cpu
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


def printed(script: str) -> str:
    """Standard output, and what it raised."""
    out = io.StringIO()
    with redirect_stdout(out):
        try:
            runpy.run_path(script, run_name="__main__")
        except Exception:  # noqa: BLE001 - the test shows it
            out.write(traceback.format_exc(limit=-4))
    return out.getvalue()


def main(device: str, target: str, *scripts: str) -> None:
    torch.set_num_threads(1)
    operators: set[str] = set()
    with ExitStack() as opened:
        if device == "mps":
            native = opened.enter_context(NativeDevice(Chain(MPS_FAMILY.target(installed_release()))))
        else:
            # With gradients MPS composes attention of products and a softmax; here the CPU does so too.
            torch.backends.cuda.enable_flash_sdp(False)
        found = {Path(script).stem: printed(script) for script in scripts}
        if device == "mps":
            native.finish()
            operators = {record.operator for record in native.recorder.calls()}
    Path(target).write_text(json.dumps({"printed": found, "operators": sorted(operators)}), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
