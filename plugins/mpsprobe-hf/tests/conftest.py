"""Makes ``meta_forward`` and ``made_checkpoints`` importable under their own names, wherever pytest was started."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent / room) for room in ("transformers", "checkpoint")]
