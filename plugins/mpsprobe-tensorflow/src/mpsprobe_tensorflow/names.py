"""The names of workloads and of the backend. Imports nothing heavy."""

from __future__ import annotations

from pathlib import Path

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
    try:
        folder = Path(name).expanduser()
        return (folder / SAVED_MODEL).is_file() and not (folder / "config.json").exists()
    except (OSError, RuntimeError, ValueError):
        return False
