"""Makes the script next to the tests importable; what needs a compiler is left out where there is none."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

collect_ignore = [] if shutil.which(os.environ.get("CXX", "c++")) else ["test_on_backend.py", "test_observe.py"]
