"""What every workload here can be asked for."""

from __future__ import annotations

from mpsprobe.errors import UsageError
from mpsprobe.protocols import RunOptions

LARGEST = 2**31 - 1
"""Elements along one axis that Metal kernels can index; nothing useful is larger."""


def chosen_batch(name: str, options: RunOptions, training: int) -> int:
    """The batch size: as requested, else 1 for inference and ``training`` for training.

    Raises:
        UsageError: the options ask for something that no model of pictures has.
    """
    if options.phase not in ("inference", "training"):
        raise UsageError(f"the workload '{name}' has no {options.phase} phase", "Choose inference or training.")
    if options.weights:
        own = "For real weights load them in a function of yours: path/to/file.py:function"
        raise UsageError(f"the workload '{name}' is made with random weights", own)
    if options.seq_len is not None:
        raise UsageError(f"the workload '{name}' has no sequences", "Leave --seq-len out.")
    if options.size != "real":
        raise UsageError(f"the workload '{name}' has one size", "Leave --size out.")
    batch = options.batch_size
    if batch is None:
        return training if options.phase == "training" else 1
    if not 1 <= batch <= LARGEST:
        raise UsageError(f"a batch of {batch} cannot be made", f"Choose a batch size from 1 to {LARGEST}.")
    return batch
