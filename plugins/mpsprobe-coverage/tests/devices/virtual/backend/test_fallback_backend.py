"""What autograd makes of PyTorch's CPU fallback: the virtual device against a small real backend in C++.

It needs a C++ compiler (``tests/left_out.py``). Building the backend takes about 8 seconds.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from fallback_programs import PROGRAMS, Trace, trace

from mpsprobe_coverage.devices.virtual import VirtualDevice
from mpsprobe_coverage.knowledge.kernels.mps import load_table
from tests.once import built_library

ON_BACKEND, SOURCE = (Path(__file__).parents[1] / name for name in ("fallback_programs.py", "fallback_backend.cpp"))


def test_the_same_graph_and_the_same_calls_on_the_same_device(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("backend")
    library = built_library(tmp_path_factory.getbasetemp(), SOURCE)
    command = [sys.executable, str(ON_BACKEND), str(library), str(folder)]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr[-4000:]
    on_backend: dict[str, Trace] = json.loads((folder / "traces.json").read_text())
    for name, (release, shape, program) in PROGRAMS.items():
        with VirtualDevice(load_table(release)) as device:
            here = trace(program, device.move(torch.nn.Parameter(torch.rand(shape))))
        assert here == on_backend[name], name
    # The derivative of a composite operator is on the CPU.
    values = on_backend["singular values"]
    assert values["graph"].count("ToCopyBackward0") == 2 and "LinalgSvdBackward0" in values["graph"]
    assert "aten.mm.default cpu" in values["backward"]
    # ``im2col`` has a derivative of its own, which autograd has recorded before the fallback copies anything.
    assert not any("cpu" in call for call in on_backend["unfolded"]["backward"])
