"""Operators whose results depend on values."""

from __future__ import annotations

import torch

from mpsprobe_coverage.device import VirtualDevice
from mpsprobe_coverage.kernels.mps import load_table


def test_an_operator_that_writes_its_results_gives_the_tensors_that_it_wrote() -> None:
    """``linalg_lstsq`` allocates empty outputs and calls ``linalg_lstsq.out``, whose sizes depend on values."""
    device = VirtualDevice(load_table("2.13.0"))
    with device:
        matrix, right = device.move((torch.ones(2, 3, requires_grad=True), torch.ones(2, 4, requires_grad=True)))
        with device.recording("forward"):
            solution = torch.linalg.lstsq(matrix, right, driver="gelsd").solution
        assert tuple(solution.shape) == (3, 4)
        with device.recording("backward"):
            solution.sum().backward()
        assert matrix.grad is not None and tuple(matrix.grad.shape) == (2, 3)
