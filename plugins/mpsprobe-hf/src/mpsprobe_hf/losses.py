"""Losses for models that have none of their own: something to call ``backward`` on that reaches every output."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch


def output(out: Any) -> Any:
    """The loss that the model computed from the labels."""
    return out.loss


def own(out: Any) -> Any:
    """``output``, where labels were derived that the model may take no notice of.

    Raises:
        ValueError: it computed no loss.
    """
    loss = getattr(out, "loss", None)
    if loss is None:
        raise ValueError("no loss is computed from these labels")
    return loss


def first_token(out: Any) -> torch.Tensor:
    """Cross-entropy of the summary of each text, read as class scores, against class 0.

    What every classification head on an encoder computes, without the head: the summary is the
    pooler's output where the encoder has a pooler, else the first token's last hidden state.
    """
    pooled = getattr(out, "pooler_output", None)
    return scores(out.last_hidden_state[:, 0] if pooled is None else pooled)


def scores(out: torch.Tensor) -> torch.Tensor:
    """Cross-entropy of class scores ``(batch, classes)`` against class 0."""
    wanted = torch.zeros(out.shape[0], dtype=torch.int64, device=out.device)
    return torch.nn.functional.cross_entropy(out.float(), wanted)


def mean(out: Any) -> torch.Tensor:
    """The sum of the means of all floating-point outputs that depend on a parameter."""
    means = [t.float().mean() for t in _tensors(out) if t.is_floating_point() and t.requires_grad]
    return torch.stack(means).sum()


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _tensors(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)


LOSSES: dict[str, Callable[[Any], Any]] = {
    "output": output,
    "own": own,
    "first_token": first_token,
    "mean": mean,
}
