"""A model of one's own, as ``mpsprobe coverage tagger.py:make`` takes it. Used by docs/how-to."""

from __future__ import annotations

from typing import Any

import torch


class Tagger(torch.nn.Module):
    """Reads words in both directions and scores a tag for each."""

    def __init__(self, words: int = 10_000, tags: int = 17) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(words, 128, max_norm=1.0)
        self.read = torch.nn.LSTM(128, 256, batch_first=True, bidirectional=True)
        self.score = torch.nn.Linear(512, tags)

    def forward(self, words: torch.Tensor, labels: torch.Tensor | None = None) -> dict[str, torch.Tensor]:
        """``words`` and ``labels`` are (batch, length); scores are (batch, length, tags)."""
        states, _ = self.read(self.embed(words))
        scores = self.score(states)
        if labels is None:
            return {"scores": scores}
        loss = torch.nn.functional.cross_entropy(scores.flatten(0, 1), labels.flatten())
        return {"scores": scores, "loss": loss}


def make(batch_size: int = 4, seq_len: int = 32) -> tuple[torch.nn.Module, dict[str, Any]]:
    """The model and what it is called with."""
    words = torch.arange(batch_size * seq_len).reshape(batch_size, seq_len)
    return Tagger(), {"words": words, "labels": words % 17}
