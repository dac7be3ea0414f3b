"""What only Metal can do: shaders of the program's own, and captures."""

from __future__ import annotations

from typing import Any, NoReturn

import torch

from mpsprobe_coverage.devices.virtual.mps_in_python import Replace


def without_metal(replace: Replace) -> None:
    """Say clearly what the virtual device cannot do, where torch's own code would find a function missing."""
    for name in ("compileShader", "loadMetalllib", "loadMetallibFromPath"):
        replace(torch._C, f"_mps_{name}", _no_shaders)
    for name in ("isCaptureEnabled", "isCapturing"):  # only with MTL_CAPTURE_ENABLED=1
        replace(torch._C, f"_mps_{name}", lambda: False)


def _no_shaders(source: Any) -> NoReturn:
    del source
    raise RuntimeError(
        "Metal shaders run on a Mac only: the virtual MPS device of mpsprobe has PyTorch's operators. "
        "Leave this part out there, or run the program with --device mps on a Mac."
    )
