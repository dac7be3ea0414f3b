"""Importing timm and torchvision, which fail in their own ways; and what every workload here can be asked for."""

from __future__ import annotations

import importlib
from typing import Any

from mpsprobe.errors import MissingPackage, UsageError, WorkloadError
from mpsprobe.protocols import RunOptions
from mpsprobe.suggestions import in_short, remedy
from mpsprobe_hf.sizes import check_made_alike

DISTRIBUTIONS = {"PIL": "pillow", "yaml": "pyyaml"}
"""Of modules that are imported under another name."""


def import_library(module: str, workload: str) -> Any:
    """The module, which the workload needs.

    Raises MissingPackage: it, or something that it needs, is not installed; WorkloadError: it cannot be imported:
    torchvision whose operators were compiled for another torch raises.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = (error.name or module).partition(".")[0]
        raise MissingPackage(f"the workload '{workload}'", DISTRIBUTIONS.get(package, package)) from error
    except Exception as error:  # a library that does not fit the installed torch may raise anything
        library = module.partition(".")[0]
        again = f"Install it again, with torch: pip install --upgrade torch {library}"
        raise WorkloadError(f"{library} cannot be imported: {in_short(error)}", remedy(error) or again) from error


def chosen_batch(name: str, options: RunOptions, training: int) -> int:
    """The batch size: as requested, else 1 for inference and ``training`` for training.

    Raises UsageError: the options ask for something that no model of pictures has.
    """
    check_made_alike(name, options)
    if options.size != "real":
        raise UsageError(f"the workload '{name}' has one size", "Leave --size out.")
    return options.batch_size or (training if options.phase == "training" else 1)
