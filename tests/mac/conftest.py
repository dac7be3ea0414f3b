"""These tests are for Macs: where torch finds no MPS device they are not collected at all.

``MPSPROBE_COLLECT_MAC=1`` collects them anyway: ``tests/house/test_delivery.py`` looks whether they could run.
"""

from __future__ import annotations

import os
import platform
from pathlib import Path

import pytest

MODELS = '''
"""Models for the tests on a Mac: one that stays on MPS, one with operators that may leave it, one with a known peak."""

import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Conv2d(3, 16, 3), torch.nn.Linear(16, 4)

    def forward(self, images):
        return self.second(torch.relu(self.first(images)).mean((2, 3)))


class Leaving(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(64, 32, max_norm=1.0)

    def forward(self, tokens):
        return torch.linalg.svd(self.table(tokens))[1].sum(-1)


class Peak(torch.nn.Module):
    def forward(self, small):
        large = torch.ones(256 * 2**20 // 4, device=small.device)
        return small + large[:1]


def net(batch_size=8):
    return Net(), (torch.ones(batch_size, 3, 64, 64),)


def leaving():
    return Leaving(), (torch.arange(48).reshape(2, 24),)


def peak():
    return Peak(), (torch.ones(1),)
'''


def _usable() -> bool:
    if os.environ.get("MPSPROBE_COLLECT_MAC"):
        return True
    if platform.system() != "Darwin":
        return False
    import torch

    return torch.backends.mps.is_available()


collect_ignore_glob = [] if _usable() else ["test_*.py"]


@pytest.fixture
def models(tmp_path: Path) -> str:
    """A file of models, to be used as ``f"{models}:net"``."""
    path = tmp_path / "models.py"
    path.write_text(MODELS, encoding="utf-8")
    return str(path)
