"""Batch size and sequence length: what the user asked for, checked against what the model can take."""

from __future__ import annotations

from collections.abc import Mapping

from mpsprobe.errors import UsageError
from mpsprobe.protocols import RunOptions
from mpsprobe_hf.catalog.entry import Dimension, Entry, Field

LARGEST = 2**31 - 1
"""Elements along one axis that Metal kernels can index; nothing useful is larger."""


def choose_sizes(entry: Entry, options: RunOptions) -> dict[str, int]:
    """``{"batch": …}``, with ``"seq"`` for a workload that has sequences.

    Raises:
        UsageError: a size below 1, a sequence longer or shorter than the model takes, or a sequence
            length for a workload without sequences.
    """
    batch = entry.batch_size[options.phase] if options.batch_size is None else options.batch_size
    check_positive("batch size", batch)
    sizes = {"batch": batch}
    if entry.seq_len is None:
        if options.seq_len is not None:
            raise UsageError(f"the workload '{entry.name}' has no sequences", "Leave out --seq-len.")
        return sizes
    length = entry.seq_len if options.seq_len is None else options.seq_len
    check_positive("sequence length", length)
    if length < entry.shortest or (entry.longest and length > entry.longest):
        upper = f" to {entry.longest}" if entry.longest else " or more"
        raise UsageError(
            f"sequence length {length} is outside what '{entry.name}' takes",
            f"Choose {entry.shortest}{upper} {entry.seq_unit}.",
        )
    return {**sizes, "seq": length}


def check_positive(what: str, value: int) -> None:
    """Raise ``UsageError`` unless ``value`` is a size that a tensor can have."""
    if not 1 <= value <= LARGEST:
        raise UsageError(f"the {what} is {value}", f"It must be from 1 to {LARGEST}.")


def shape_of(field: Field, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """The dimensions of ``field`` with ``batch`` and ``seq`` filled in."""
    return tuple(_elements(dimension, sizes) for dimension in field.shape)


def _elements(dimension: Dimension, sizes: Mapping[str, int]) -> int:
    if isinstance(dimension, int):
        return dimension
    factor, _, name = dimension.rpartition("*")
    return int(factor or 1) * sizes[name]
