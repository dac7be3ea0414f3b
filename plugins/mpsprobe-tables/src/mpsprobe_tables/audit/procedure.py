"""What PyTorch's ``TestConsistency`` does with one sample: the entry, then its gradients. The same on every device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from mpsprobe.suggestions import first_line

LONGEST_MESSAGE = 200  # characters of an error that are kept


def forward(entry: Any, sample: Any) -> Any:
    """The entry's result for the sample."""
    return entry(sample.input, *sample.args, **sample.kwargs)


def backward(
    entry: Any, sample: Any, output: Any, weigh: Callable[[torch.Tensor], torch.Tensor]
) -> Callable[[], tuple[torch.Tensor | None, ...]] | None:
    """A function that computes the gradients of ``output``; None where the test compares none.

    Args:
        weigh: from an output to what its gradient is weighed with.

    Raises:
        TypeError: the result is neither a tensor nor a collection, so that the test itself raises.
    """
    if entry.name == "unique" and sample.kwargs.get("sorted") is False:
        return None  # the order of its results is open, and the test goes on with the next sample
    outputs = (output,) if isinstance(output, torch.Tensor) else tuple(output)
    wanted = tuple(one for one in outputs if _has_gradient(one))
    if not wanted:
        return None
    inputs = tuple(one for one in tree_leaves((sample.input, sample.args, sample.kwargs)) if _has_gradient(one))
    weights = tuple(weigh(one) for one in wanted)
    return lambda: torch.autograd.grad(wanted, inputs, grad_outputs=weights, allow_unused=True)


def message(error: BaseException) -> str:
    """The first line of an error, with its type."""
    return f"{type(error).__name__}: {first_line(error)}"[:LONGEST_MESSAGE]


def _has_gradient(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad
