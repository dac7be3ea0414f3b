"""Makes the libraries and wheels that tests make importable under their own names, wherever pytest was started."""

from __future__ import annotations

import sys
from pathlib import Path

from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent))

# Timing on a shared CI machine says nothing about the code; whatever else was configured stays.
settings.register_profile("kernels", parent=settings(), deadline=None)
settings.load_profile("kernels")
