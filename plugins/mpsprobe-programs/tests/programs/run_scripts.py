"""Runs scripts one after another in this process, on the native device or without it; says what each one printed.

``python run_scripts.py DEVICE OUT.json SCRIPT…``. The scripts choose ``mps`` where torch says that it is there.
"""

from __future__ import annotations

import io
import json
import runpy
import sys
import traceback
from contextlib import ExitStack, redirect_stdout
from pathlib import Path

import torch

from mpsprobe_coverage.judging.chain import Chain
from mpsprobe_coverage.kernels.mps import MPS_FAMILY
from mpsprobe_coverage.kernels.releases import installed_release
from mpsprobe_programs.native.device import NativeDevice


def printed(script: str) -> str:
    """Standard output, and what it raised."""
    out = io.StringIO()
    with redirect_stdout(out):
        try:
            runpy.run_path(script, run_name="__main__")
        except Exception:  # noqa: BLE001 - the test shows it
            out.write(traceback.format_exc(limit=-4))
    return out.getvalue()


if __name__ == "__main__":
    device, target, *scripts = sys.argv[1:]
    torch.set_num_threads(1)
    operators: set[str] = set()
    with ExitStack() as opened:
        if device == "mps":
            native = NativeDevice(Chain(MPS_FAMILY.target(installed_release())))
            opened.enter_context(native)
        else:
            # With gradients MPS composes attention of products and a softmax; here the CPU does so too.
            torch.backends.cuda.enable_flash_sdp(False)
        found = {Path(script).stem: printed(script) for script in scripts}
        if device == "mps":
            native.finish()
            operators = {record.operator for record in native.recorder.calls()}
    Path(target).write_text(json.dumps({"printed": found, "operators": sorted(operators)}), encoding="utf-8")
