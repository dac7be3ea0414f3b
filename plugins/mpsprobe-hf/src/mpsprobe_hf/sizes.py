"""Inputs as data; batch size and sequence length: what the user asked for, checked against what the model can take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mpsprobe.errors import UsageError
from mpsprobe.protocols import RunOptions

Dimension = int | str
"""Elements along one axis; ``"batch"``, ``"seq"`` or a multiple (``"4*batch"``) where the user may choose."""
LARGEST = 2**31 - 1
"""Elements along one axis that Metal kernels can index; nothing useful is larger."""


@dataclass(frozen=True, slots=True)
class Field:
    """One input of a model."""

    name: str  # the keyword argument of ``forward``
    kind: str  # what is in it; a function of that name in ``mpsprobe_hf.tensors``
    shape: tuple[Dimension, ...]  # its dimensions
    high: int = 0  # for whole numbers, one more than the largest (a vocabulary size, a number of classes)
    settings: Mapping[str, Any] = field(default_factory=dict)  # what else the kind takes


def check_made_alike(name: str, options: RunOptions) -> None:
    """Refuse what no pipeline and no model of pictures can be asked for: real weights, sequences, generation.

    Raises UsageError: the options ask for one of these, or for a batch that cannot be made.
    """
    if options.phase not in ("inference", "training"):
        raise UsageError(f"the workload '{name}' has no {options.phase} phase", "Choose inference or training.")
    if options.weights:
        own = "For real weights load them in a function of yours: path/to/file.py:function"
        raise UsageError(f"the workload '{name}' is made with random weights", own)
    if options.seq_len is not None:
        raise UsageError(f"the workload '{name}' has no sequences", "Leave --seq-len out.")
    if options.batch_size is not None:
        check_positive("batch size", options.batch_size)


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
