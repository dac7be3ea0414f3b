"""Builds the backend of ``fallback_backend.cpp`` into a folder, runs the programs on it, writes ``traces.json`` there.

In a process of its own: what it registers stays for as long as the process lives.
"""

from __future__ import annotations

import json
import sys
import types
import warnings
from pathlib import Path

import torch
from fallback_programs import PROGRAMS, trace
from torch.utils import cpp_extension

HERE = Path(__file__).parent
NAME = "mpsprobe_fallback_backend"


def main(folder: str) -> None:
    """Build and run in ``folder``."""
    torch.utils.rename_privateuse1_backend("made")
    module = types.ModuleType("torch.made")
    module._lazy_init = lambda: None  # type: ignore[attr-defined]
    torch._register_device_module("made", module)
    source = str(HERE / "fallback_backend.cpp")
    cpp_extension.load(NAME, [source], build_directory=folder, extra_cflags=["-O0"], is_python_module=False)
    traces = {}
    for name, (_, shape, program) in PROGRAMS.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch warns although the gradients are right
            traces[name] = trace(program, torch.rand(shape).to("made"))
    Path(folder, "traces.json").write_text(json.dumps(traces))


if __name__ == "__main__":
    main(sys.argv[1])
