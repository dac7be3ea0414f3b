"""The images among the inputs of a workload: how large they are, and other ones.

A batch of images has four dimensions, one of clips five; a detector takes a list of images with three. Models that are
made for one size often have a switch for others, which is used: of transformers an argument of ``forward``, of timm a
method. A pipeline that makes images is asked for a ``height`` and a ``width``.
"""

from __future__ import annotations

import inspect
from math import gcd
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from mpsprobe.errors import UsageError
from mpsprobe.protocols import TorchRun

# Networks of convolutions halve images some five times: a side that is no multiple of it has other remainders.
COARSE = 32
PATCH = 8  # elements a side from which on patches are those of a transformer, which are not halved further
LATENTS = 64  # pixels a side that become one element of a pipeline: 8 in its autoencoder, halved thrice by its denoiser
MOST_ELEMENTS = 2**60  # PyTorch counts bytes with 64 bits, one of them a sign
IMAGE = 3  # channels, height, width
CHANNELS = (1, 3, 4)  # of an image in a list: a list of other tensors with three dimensions is not one of images
ANY_SIZE = "interpolate_pos_encoding"  # with it, models of transformers take other sizes than they were made for


def side(run: TorchRun) -> int | None:
    """The width of the images, in pixels or in elements of the first one; None where there are none."""
    sides = _sides(run)
    return None if sides is None else sides[1]


def unit(run: TorchRun) -> int:
    """The width is varied by multiples of it: of the model's patches, or of what the model can halve."""
    width, image = side(run), _first(run)
    if width is None:
        return 1
    if image is None:
        return gcd(width, LATENTS)
    for module in run.model.modules():
        if isinstance(module, torch.nn.Conv2d) and module.in_channels == image.shape[-3]:
            patch = module.stride[-1]
            return gcd(width, patch if patch >= PATCH and module.kernel_size[-1] == patch else COARSE)
    return gcd(width, COARSE)


def resize(run: TorchRun, size: int) -> None:
    """Have ``run`` take images of that width, with what else has the height and width of the first image."""
    sides, first = _sides(run), _first(run)
    if sides is None or sides[1] == size:
        return
    height, width = sides
    if height * size % width == 0:
        other = (height * size // width, size)
    else:  # no whole number: a multiple of what the height was one of
        step = gcd(height, COARSE)
        other = (max(1, height * size // width // step) * step, size)
    if first is None:
        run.kwargs = {**run.kwargs, "height": other[0], "width": other[1]}
        return
    if first.numel() // (height * width) * size * other[0] > MOST_ELEMENTS:
        raise UsageError(f"images of {size} x {other[0]} have more elements than a tensor can", "Choose smaller ones.")

    def resized(value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.dim() > 2 and value.shape[-2:] == sides:
            # It may be larger than this machine's memory.
            return torch.empty((*value.shape[:-2], *other), dtype=value.dtype, device="meta")
        return value

    run.args, run.kwargs = tree_map(resized, run.args), tree_map(resized, dict(run.kwargs))
    if ANY_SIZE in inspect.signature(run.model.forward).parameters:
        run.kwargs = {**run.kwargs, ANY_SIZE: True}
    if hasattr(run.model, "set_input_size"):
        run.model.set_input_size(img_size=other)


def _sides(run: TorchRun) -> tuple[int, int] | None:
    """Height and width of the first image, or those that a pipeline is asked for."""
    first = _first(run)
    if first is not None:
        return int(first.shape[-2]), int(first.shape[-1])
    height, width = run.kwargs.get("height"), run.kwargs.get("width")
    return (height, width) if isinstance(height, int) and isinstance(width, int) else None


def _first(run: TorchRun) -> torch.Tensor | None:
    inputs = (run.args, dict(run.kwargs))
    parts = tree_leaves(inputs, is_leaf=lambda value: isinstance(value, list))
    listed = tree_leaves([part for part in parts if isinstance(part, list)])
    batches = [value for value in tree_leaves(inputs) if _is_image(value) and value.dim() > IMAGE]
    images = [value for value in listed if _is_image(value) and value.dim() == IMAGE and value.shape[0] in CHANNELS]
    return next(iter(batches + images), None)


def _is_image(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()
