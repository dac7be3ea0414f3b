"""Importing TensorFlow, which may be missing, too old or silent about why it fails."""

from __future__ import annotations

import importlib
import os
from typing import Any

from mpsprobe.errors import MissingPackage, WorkloadError
from mpsprobe.suggestions import in_short, remedy

OLDEST_TENSORFLOW = (2, 16)
"""The first release that comes with Keras 3."""
LOG_LEVEL = "TF_CPP_MIN_LOG_LEVEL"
"""A variable that TensorFlow's C++ reads when it is loaded; 3 keeps everything but fatal errors."""


def import_tensorflow(needed_by: str) -> Any:
    """The module ``tensorflow``, without the lines that it prints about the processor.

    Raises:
        MissingPackage: it, or something that it needs, is not installed; it says what it is ``needed_by``.
        WorkloadError: it cannot be imported, or is too old.
    """
    before = os.environ.get(LOG_LEVEL)
    os.environ.setdefault(LOG_LEVEL, "3")
    try:
        tensorflow = importlib.import_module("tensorflow")
    except ModuleNotFoundError as error:
        package = (error.name or "tensorflow").partition(".")[0]
        raise MissingPackage(needed_by, package) from error
    except Exception as error:  # a build that does not fit this Python or numpy may raise anything
        again = "Install it again: pip install --upgrade tensorflow"
        raise WorkloadError(f"tensorflow cannot be imported: {in_short(error)}", remedy(error) or again) from error
    finally:
        if before is None:
            os.environ.pop(LOG_LEVEL, None)
    numbers = tuple(int(part) for part in tensorflow.__version__.split(".")[:2])
    if numbers < OLDEST_TENSORFLOW:
        oldest = ".".join(map(str, OLDEST_TENSORFLOW))
        raise WorkloadError(
            f"tensorflow {tensorflow.__version__} is too old: its Keras is another one",
            f"Install {oldest} or newer: pip install --upgrade 'tensorflow>={oldest}'",
        )
    return tensorflow


def took_part(needed_by: str) -> dict[str, str | None]:
    """The fields of an ``Environment`` that are other than for workloads of torch, which took no part."""
    tensorflow = import_tensorflow(needed_by)
    import keras

    others = dict.fromkeys(("torch", "torch_build", "transformers", "torchvision"))
    return {**others, "tensorflow": tensorflow.__version__, "keras": keras.__version__}
