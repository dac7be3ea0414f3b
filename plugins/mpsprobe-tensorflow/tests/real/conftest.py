"""The real TensorFlow, where it is installed: ``.ci/run`` has it next to its environment."""

from __future__ import annotations

import os
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

INSTALLED = find_spec("tensorflow") is not None
collect_ignore_glob = [] if INSTALLED else ["test_*.py"]
if shutil.which("c++") is None:  # TensorFlow's placer needs a device, which has to be compiled
    collect_ignore_glob.append("test_placer.py")
if INSTALLED:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import keras  # noqa: F401  # they stay: a test has to leave sys.modules as it found it
    import tensorflow  # noqa: F401
