"""Makes what tests make (libraries, wheels) importable under its own name, wherever pytest was started."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent / folder) for folder in ("builder", "tensorflow")]
