"""The real timm and torchvision, where both are installed: ``.ci/run`` has them next to its environment."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from compiled_operators import import_torchvision

import_torchvision()
