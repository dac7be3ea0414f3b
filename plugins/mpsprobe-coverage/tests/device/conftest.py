"""Makes the written-down expectations importable wherever pytest was started."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

# Warnings of the tests are errors, and none is skipped: what needs a compiler is left out where there is none.
collect_ignore = (
    [] if shutil.which(os.environ.get("CXX", "c++")) and shutil.which("ninja") else ["test_fallback_backend.py"]
)
