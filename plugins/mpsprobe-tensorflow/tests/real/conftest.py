"""The real TensorFlow, where it is installed: ``.ci/run`` has it next to its environment."""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras  # noqa: F401  # they stay: a test has to leave sys.modules as it found it
import tensorflow  # noqa: F401
