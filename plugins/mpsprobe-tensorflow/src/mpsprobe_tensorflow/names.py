"""The names of workloads and of the backend. Imports nothing heavy."""

# ruff: noqa: PTH110, PTH111, PTH113, PTH118
# Importing pathlib takes a twentieth of mpsprobe --help.
from __future__ import annotations

import os.path

FRAMEWORK = "tensorflow"
"""What the workloads are written in, as declarations say it."""
BACKEND = "tensorflow-metal"
"""What ``--backend`` and reports call Apple's plugin."""
SPACE = "keras"
"""What stands before the colon of a name from ``keras.applications``."""
OLDEST_TENSORFLOW = (2, 16)
"""The first release that comes with Keras 3."""
SAVED_MODEL = "saved_model.pb"
"""The file that makes a folder a SavedModel."""


def is_saved_model(name: str) -> bool:
    """Whether ``name`` is a folder with a SavedModel, and no checkpoint of transformers (``config.json``) as well."""
    folder = os.path.expanduser(name)
    model, other = (os.path.join(folder, one) for one in (SAVED_MODEL, "config.json"))
    return os.path.isfile(model) and not os.path.exists(other)
