"""Runs the programs on the backend of ``fallback_backend.cpp``, a library, and writes ``traces.json`` to a folder.

In a process of its own: what it registers stays for as long as the process lives.
"""

from __future__ import annotations

import json
import sys
import types
import warnings
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from fallback_programs import PROGRAMS, trace


def main(library: str, folder: str) -> None:
    """Run and write."""
    torch.utils.rename_privateuse1_backend("made")
    module = types.ModuleType("torch.made")
    module._lazy_init = lambda: None  # type: ignore[attr-defined]
    torch._register_device_module("made", module)
    torch.ops.load_library(library)
    traces = {}
    for name, (_, shape, program) in PROGRAMS.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch warns although the gradients are right
            traces[name] = trace(program, torch.rand(shape).to("made"))
    Path(folder, "traces.json").write_text(json.dumps(traces))


if __name__ == "__main__":
    main(*sys.argv[1:])
