"""A small model for each verdict: ``mpsprobe coverage verdicts.py:double``. Used by docs/explanation/verdicts.md."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


class Calls(torch.nn.Module):
    """A model that calls one function on its input."""

    def __init__(self, function: Callable[[torch.Tensor], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, tensor: torch.Tensor) -> Any:
        return self.function(tensor)


def absolute() -> tuple[torch.nn.Module, torch.Tensor]:
    """``abs`` is composite: what is counted is ``abs.out``."""
    return Calls(torch.abs), torch.ones(16, 16)


def decomposition() -> tuple[torch.nn.Module, torch.Tensor]:
    """Registered to run on the CPU up to 2.13, native from 2.14.1 on: 2.14.0 leaves small ones to the CPU."""
    return Calls(torch.linalg.svd), torch.ones(16, 16)


def eigenvalues() -> tuple[torch.nn.Module, torch.Tensor]:
    """No release has a kernel for it."""
    return Calls(torch.linalg.eigvals), torch.eye(16)


def double() -> tuple[torch.nn.Module, torch.Tensor]:
    """MPS has no 64-bit floating point."""
    return Calls(lambda tensor: tensor.double()), torch.ones(16, 16)


def volume() -> tuple[torch.nn.Module, torch.Tensor]:
    """The convolution's kernel refuses three dimensions before 2.3."""
    return torch.nn.Conv3d(1, 4, 3), torch.ones(1, 1, 8, 8, 8)


@torch.library.custom_op("example::twice", mutates_args=(), device_types="cpu")
def twice(tensor: torch.Tensor) -> torch.Tensor:
    """An operator of a library that no table knows."""
    return tensor * 2


@twice.register_fake
def _(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(tensor)


def foreign() -> tuple[torch.nn.Module, torch.Tensor]:
    """Nobody can say whether it runs on MPS."""
    return Calls(twice), torch.ones(16, 16)
