"""First on the path of the processes that ``architectures.py`` measures with ``--packages`` or ``--generic``.

torchvision is imported also where its compiled operators do not load (a build for CUDA, and a torch for the CPU), and
corrections by model type are left out where ``GENERIC`` is set.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "plugins/mpsprobe-hf/tests/vision/real"))
from compiled_operators import import_torchvision, installed

if installed():
    import_torchvision()
sys.path.pop(0)
if os.environ.get("GENERIC"):
    from mpsprobe_hf.transformers.inputs.rules import FAMILIES

    assert isinstance(FAMILIES, dict)
    FAMILIES.clear()
