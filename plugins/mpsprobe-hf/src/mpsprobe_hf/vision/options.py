"""What every workload here can be asked for."""

from __future__ import annotations

from mpsprobe.errors import UsageError
from mpsprobe.protocols import RunOptions
from mpsprobe_hf.sizes import check_made_alike


def chosen_batch(name: str, options: RunOptions, training: int) -> int:
    """The batch size: as requested, else 1 for inference and ``training`` for training.

    Raises:
        UsageError: the options ask for something that no model of pictures has.
    """
    check_made_alike(name, options)
    if options.size != "real":
        raise UsageError(f"the workload '{name}' has one size", "Leave --size out.")
    return options.batch_size or (training if options.phase == "training" else 1)
