"""Makes ``meta_forward`` and ``made_checkpoints`` importable under their own names, wherever pytest was started."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent / "checkpoint")]
