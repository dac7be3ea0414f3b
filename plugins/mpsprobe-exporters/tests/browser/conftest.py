"""Makes the pages importable; without a Chromium on the path nothing of this folder is collected."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from browsing import program

collect_ignore = [] if program() else ["test_in_chromium.py"]
