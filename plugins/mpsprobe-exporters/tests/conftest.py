"""Makes the example reports, and what tests of time lines share, importable under their own names."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent / "traces")]
