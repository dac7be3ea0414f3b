"""The real TensorFlow, where it is installed: ``.ci/run`` has it next to its environment."""

from __future__ import annotations

import os
from importlib.util import find_spec

INSTALLED = find_spec("tensorflow") is not None
collect_ignore_glob = [] if INSTALLED else ["test_*.py"]
if INSTALLED:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow  # noqa: F401  # it stays: a test has to leave sys.modules as it found it
