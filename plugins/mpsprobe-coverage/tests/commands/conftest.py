"""Models of a few lines, and the folder in which the commands are asked about them."""

from __future__ import annotations

from pathlib import Path

import pytest

MODELS = """
import os, sys, time
import torch


class Net(torch.nn.Module):
    def __init__(self, last):
        super().__init__()
        self.first, self.last = torch.nn.Linear(4, 4), last

    def forward(self, x):
        return self.last(self.first(x))


def clean(batch_size=4):
    return Net(torch.nn.Tanh()), torch.ones(batch_size, 4)


def factors(phase):
    return Net(lambda y: torch.linalg.svd(y)[1].sum()), torch.ones(4, 4)


def late():
    return Net(lambda y: y.cumsum(0)), torch.ones(4, 4)


def doubles():
    return Net(lambda y: y.double()), torch.ones(4, 4)


def missing():
    return Net(torch.linalg.eig), torch.ones(4, 4)


def branch():
    def last(y):
        return torch.linalg.eigvals(y).abs() if y.abs().max() > 1 else y
    return Net(last), torch.ones(4, 4)


def breaks():
    def last(y):
        raise ValueError("no such shape")
    return Net(last), torch.ones(4, 4)


def waits():
    def last(y):
        print("ready", file=sys.stderr, flush=True)
        time.sleep(300)
    return Net(last), torch.ones(4, 4)


def raises():
    raise LookupError("no weights here")


def dies():
    os._exit(7)


def number():
    return 7


class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(8, 8)

    def forward(self, x):
        x = self.inner(x)[None]
        return torch.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True)


def causal():
    return Attention(), torch.ones(4, 17, 8)


def guess():
    return Net(lambda y: y * y.max().item()), torch.ones(4, 4)


def loop():
    def last(y):
        while y.sum() > 3:
            y = y.sin()
        return y
    return Net(last), torch.ones(4, 4)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with ``models.py``."""
    (tmp_path / "models.py").write_text(MODELS, encoding="utf-8")
    return tmp_path
