"""What needs a compiler is left out where there is none."""

from __future__ import annotations

import os
import shutil

collect_ignore_glob = [] if shutil.which(os.environ.get("CXX", "c++")) else ["test_*.py"]
