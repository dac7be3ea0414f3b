"""A program that is observed, and what was."""

from __future__ import annotations

from collections import Counter

import torch

from mpsprobe_coverage.devices.observed.observe import Observation


def training() -> list[torch.Tensor]:
    """A step of a small model."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.TransformerEncoderLayer(8, 2, 16, 0.1, batch_first=True), torch.nn.Linear(8, 2)
    )
    optimizer = torch.optim.AdamW(model.parameters(), 0.1)
    loss = torch.nn.functional.cross_entropy(model(torch.rand(3, 5, 8)).mean(1), torch.tensor([0, 1, 0]))
    loss.backward()
    optimizer.step()
    return [loss.detach(), *(parameter.detach() for parameter in model.parameters())]


def counts(run: Observation) -> Counter[str]:
    """Operator → calls."""
    found: Counter[str] = Counter()
    for call in run.calls():
        found[call.kind.operator] += call.calls
    return found
