"""The images among the inputs of a workload: how large they are, and other ones."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from mpsprobe.protocols import TorchRun

IMAGE = 4  # batch, channels, height, width


def side(run: TorchRun) -> int | None:
    """The width of the first image (of latents: theirs) in its elements; None where there is none."""
    one = _first(run)
    return None if one is None else int(one.shape[-1])


def resize(run: TorchRun, size: int) -> None:
    """Give ``run`` inputs with images of that width, with what else has the height and width of the first image."""
    first = _first(run)
    if first is None or first.shape[-1] == size:
        return
    height, width = first.shape[-2:]
    other = (max(1, height * size // width), size)

    def resized(one: Any) -> Any:
        if isinstance(one, torch.Tensor) and one.dim() > 2 and one.shape[-2:] == (height, width):
            return torch.empty(
                (*one.shape[:-2], *other), dtype=one.dtype, device="meta"
            )  # it may be larger than memory
        return one

    run.args, run.kwargs = tree_map(resized, run.args), tree_map(resized, dict(run.kwargs))


def _first(run: TorchRun) -> torch.Tensor | None:
    for one in tree_leaves((run.args, dict(run.kwargs))):
        if isinstance(one, torch.Tensor) and one.dim() == IMAGE and one.is_floating_point():
            return one
    return None
