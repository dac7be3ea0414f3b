"""Inputs and targets, on torch's default device.

Values are a fixed function of the position, not random numbers: a run can be repeated, and making
inputs leaves torch's generators alone.
"""

from __future__ import annotations

import math

import torch


def pixels(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Normalised pixels: numbers between -1 and 1 that look like noise."""
    return torch.sin(torch.arange(math.prod(shape), dtype=torch.float32) * 12.9898).reshape(shape).to(dtype)


def photo(height: int, width: int, dtype: torch.dtype) -> torch.Tensor:
    """A picture as detectors take it, ``(3, height, width)``: numbers between 0 and 1, which the model normalises."""
    return (pixels((3, height, width), torch.float32) + 1).div(2).to(dtype)


def objects(
    count: int, height: int, width: int, *, classes: int, masks: bool, keypoints: int
) -> dict[str, torch.Tensor]:
    """What a detector of torchvision is trained with for one picture.

    Args:
        count: of objects, side by side.
        height, width: of the picture.
        classes: how many there are, with the background, which is class 0.
        masks: whether each object has a mask, uint8 ``(count, height, width)``.
        keypoints: how many each object has, ``(count, keypoints, 3)``; 0 for none.

    Returns:
        ``boxes`` ``(count, 4)`` as left, top, right and bottom in pixels, ``labels`` int64 ``(count,)``, and the rest.
        Boxes and keypoints are float32, whatever the model is: torchvision refuses keypoints in anything else.
    """
    step = width / count
    left = torch.arange(count, dtype=torch.float32) * step
    ones = torch.ones(count, dtype=torch.float32)
    boxes = torch.stack([left, ones * (height / 4), left + 0.75 * step, ones * (height * 3 / 4)], dim=1)
    found = {"boxes": boxes, "labels": torch.arange(count) % (classes - 1) + 1}
    if masks:
        columns = torch.arange(width).reshape(1, 1, width).expand(count, height, width)
        found["masks"] = (columns * count // width == torch.arange(count).reshape(count, 1, 1)).to(torch.uint8)
    if keypoints:
        places = torch.stack([boxes[:, 0] + step / 4, boxes[:, 1] + height / 4, ones], dim=1)
        found["keypoints"] = places.unsqueeze(1).repeat(1, keypoints, 1)
    return found
