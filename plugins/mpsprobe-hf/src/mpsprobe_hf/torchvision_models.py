"""Models as torchvision defines them, for those that transformers does not have."""

from __future__ import annotations

from typing import Any

from mpsprobe.errors import WorkloadError
from mpsprobe.suggestions import remedy


def make_torchvision_model(name: str, dtype: str, *, training: bool) -> Any:
    """``torchvision.models.<name>()`` with random weights.

    Args:
        name: of the function in ``torchvision.models``.
        dtype: of the parameters.
        training: the mode.

    Raises:
        WorkloadError: torchvision does not fit the installed torch, which it tells when imported.
    """
    import importlib

    import torch

    from mpsprobe_hf.construct import default_dtype

    try:
        models = importlib.import_module("torchvision.models")
    except (ImportError, RuntimeError, OSError) as error:
        raise WorkloadError(
            f"torchvision cannot be imported: {error}",
            remedy(error) or "Install it again, with torch: pip install --upgrade torch torchvision",
        ) from error
    with default_dtype(getattr(torch, dtype)):
        return getattr(models, name)(weights=None).train(training)
