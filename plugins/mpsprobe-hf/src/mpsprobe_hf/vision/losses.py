"""What is trained with: from what a model returned to a number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.nn.functional import cross_entropy

AUXILIARY = 0.5
"""Weight of an auxiliary head of segmentation, from torchvision's ``references/segmentation``."""
DECAY = 0.8
"""What each earlier estimate of optical flow counts less than the next, from torchvision's ``references``."""


def of_scores(output: Any) -> torch.Tensor:
    """The sum of the cross-entropies of all class scores ``(batch, classes)`` that the model returned, against class 0.

    There is more than one where a model has auxiliary classifiers, which it uses in training only.
    """
    return torch.stack([_against_class_0(scores) for scores in tensors(output)]).sum()


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


def of_features(output: Any) -> torch.Tensor:
    """The sum of the means of all that was returned: something to call ``backward`` on that reaches every output."""
    return torch.stack([features.float().mean() for features in tensors(output)]).sum()


def tensors(value: Any) -> Iterator[torch.Tensor]:
    """Every floating-point tensor in nested lists, tuples and dicts."""
    if isinstance(value, torch.Tensor):
        if value.is_floating_point():
            yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from tensors(one)
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from tensors(one)


def _against_class_0(scores: torch.Tensor) -> torch.Tensor:
    classes = scores.new_zeros((scores.shape[0], *scores.shape[2:]), dtype=torch.int64)
    return cross_entropy(scores.float(), classes)
