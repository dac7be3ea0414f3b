"""Pairs of ``linalg.toml``; see ``pairs.py``."""

from __future__ import annotations

import torch
from pairs import Function, Pair, _of, _strided


def _inverse(rows: int) -> Function:
    return lambda x: torch.linalg.inv_ex(x.new_zeros(rows, rows))


def _solved(gradient: bool) -> Function:
    """The solution of some systems, with a gradient to pass it or next to it."""

    def run(x: torch.Tensor) -> torch.Tensor:
        matrices = x.new_zeros(3, 4, 4) + torch.eye(4, device=x.device)
        made = torch.linalg.solve(matrices + x.sum() if gradient else matrices, x.new_zeros(3, 4, 2))
        return made if gradient else made + x.sum()

    return run


def _least_squares(rows: int) -> Function:
    return _of(torch.linalg.lstsq, (8, rows, 48), (8, rows, 3), dtype=torch.complex64)


def _factored(*shape: int) -> Function:
    return _of(torch.linalg.lu_factor, shape)


def _triangular(*batch: int) -> Function:
    return lambda x: torch.linalg.solve_triangular(x.new_ones(*batch, 4, 4), x.new_ones(*batch, 4, 2), upper=True)


PAIRS = {
    "inverse-large": Pair("2.7.0", _inverse(1025), _inverse(1024)),
    "householder-above-32": Pair(
        "2.10.0",
        lambda x: torch.linalg.householder_product(x.new_zeros(33, 33), x.new_zeros(33)),
        lambda x: torch.linalg.householder_product(x.new_zeros(32, 32), x.new_zeros(32)),
    ),
    "solve-broadcast": Pair(
        "2.12.1", _of(torch.linalg.solve, (2, 3, 3), (3, 1)), _of(torch.linalg.solve, (2, 3, 3), (2, 3, 1))
    ),
    "solve-gradient": Pair("2.10.0", _solved(gradient=True), _solved(gradient=False), "training"),
    "lstsq-complex-wide": Pair("2.14.0", _least_squares(32), _least_squares(48), macos="26.2"),
    "lu-factor-batch": Pair("2.6.0", _factored(2, 256, 256), _factored(2, 255, 255)),
    "solve-triangular-many-batches": Pair("2.6.0", _triangular(2, 3), _triangular(6)),
    "lu-factor-strided": Pair("2.6.0", *_strided(torch.linalg.lu_factor)),
}
