"""What is trained with: from what a model returned to a number that ``backward`` is called on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch.nn.functional import cross_entropy

AUXILIARY = 0.5
"""Weight of an auxiliary head of segmentation, from torchvision's ``references/segmentation``."""
DECAY = 0.8
"""What each earlier estimate of optical flow counts less than the next, from torchvision's ``references``."""


def own(out: Any) -> Any:
    """The loss that the model computed from the labels, of which it may have taken no notice.

    Raises ValueError: it computed no loss.
    """
    loss = getattr(out, "loss", None)
    if loss is None:
        raise ValueError("no loss is computed from these labels")
    return loss


def mean(out: Any) -> torch.Tensor:
    """The sum of the means of all floating-point outputs that depend on a parameter."""
    outputs = [*floating(out)]
    trained = [output for output in outputs if output.requires_grad] or outputs
    return torch.stack([tensor.float().mean() for tensor in trained]).sum()


def floating(value: Any) -> Iterator[torch.Tensor]:
    """Every floating-point tensor in nested lists, tuples and mappings."""
    if isinstance(value, torch.Tensor):
        if value.is_floating_point():
            yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from floating(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from floating(item)


def of_scores(output: Any) -> torch.Tensor:
    """The sum of the cross-entropies of all class scores ``(batch, classes)`` that the model returned, against class 0.

    There is more than one where a model has auxiliary classifiers, which it uses in training only.
    """
    return torch.stack([_against_class_0(scores) for scores in floating(output)]).sum()


def of_pixels(output: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """Cross-entropy of class scores for each pixel, ``(batch, classes, height, width)``, against class 0."""
    loss = _against_class_0(output["out"])
    return loss + AUXILIARY * _against_class_0(output["aux"]) if "aux" in output else loss


def of_parts(output: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """The sum of what a detector returned in training: a loss for each of its parts, by name."""
    return torch.stack(list(output.values())).sum()


def of_flows(output: list[torch.Tensor]) -> torch.Tensor:
    """How far all estimates ``(batch, 2, height, width)`` are from no movement; the last one counts most."""
    last = len(output) - 1
    return torch.stack([flow.abs().mean() * DECAY ** (last - i) for i, flow in enumerate(output)]).sum()


def _against_class_0(scores: torch.Tensor) -> torch.Tensor:
    classes = scores.new_zeros((scores.shape[0], *scores.shape[2:]), dtype=torch.int64)
    return cross_entropy(scores.float(), classes)


LOSSES: dict[str, Callable[[Any], Any]] = {
    "own": own,
    "mean": mean,
}
