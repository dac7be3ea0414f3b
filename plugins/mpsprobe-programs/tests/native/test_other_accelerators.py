"""A torch that is built for another accelerator has the device too: ``built_for_cuda.cpp`` makes one of this torch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys
import torch
from torch.utils.cpp_extension import load
from mpsprobe_coverage.judging.chain import Chain
from mpsprobe_coverage.kernels.mps import load_table
from mpsprobe_programs.native.device import NativeDevice

load("built_for_cuda", [sys.argv[1]], build_directory=sys.argv[2], is_python_module=False)
with NativeDevice(Chain(load_table("2.13.0")), lines=False):
    x = torch.ones(2, device="mps", requires_grad=True)
    (x * 2 + x * 3).sum().backward()  # autograd asks the accelerator for streams where two gradients meet
    print(x.grad.tolist(), torch.accelerator.current_accelerator())
"""


def test_a_torch_that_is_built_for_cuda(tmp_path: Path) -> None:
    source = Path(__file__).with_name("built_for_cuda.cpp")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])  # ninja is there
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, source, tmp_path],
        capture_output=True, text=True, check=False, env={**os.environ, "PATH": path},
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "[5.0, 5.0] mps\n"), done.stderr
