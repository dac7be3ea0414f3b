"""The names of workloads and of the backend. Imports nothing heavy."""

from __future__ import annotations

FRAMEWORK = "tensorflow"
"""What the workloads are written in, as declarations say it."""
BACKEND = "tensorflow-metal"
"""What ``--backend`` and reports call Apple's plugin."""
SPACE = "keras"
"""What stands before the colon of a name from ``keras.applications``."""
OLDEST_TENSORFLOW = (2, 16)
"""The first release that comes with Keras 3."""
