"""Where C++ goes another way for a subclass of tensors than for a tensor of a Mac: what the Mac calls, and why."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F  # noqa: N812 - as everyone calls it
from expectations import Case, of

EVERY = "1.12.1"
_NO_ZERO = "FunctionsManual.cpp, prod_backward: without a zero the result is divided by each element."
_EVENLY = "FunctionsManual.cpp, evenly_distribute_backward: value.isnan().item(), then a mask is filled."


def _speech() -> Sequence[torch.Tensor]:
    return [torch.rand(5, 2, 4), torch.tensor([[1, 2], [3, 1]]), torch.tensor([5, 5]), torch.tensor([2, 2])]


CASES = {
    "ctc_loss with lengths in tensors: LossCTC.cpp: lengths in tensors are copied to the CPU and made lists; _ctc_loss "
    "has a kernel since 2.14.": Case(
        of(lambda x, targets, *lengths: F.ctc_loss(x, targets, *lengths, reduction="sum"), _speech),
        {
            EVERY: "missing:_ctc_loss sum.dim_IntList | missing:_ctc_loss_backward",
            "2.15.0": "_ctc_loss sum.dim_IntList | _ctc_loss_backward",
        },
    ),
    "one matrix by a batch: LinearAlgebra.cpp: folded only where the single matrix requires a gradient.": Case(
        of(torch.matmul, (1, 3, 4), (5, 4, 6)), "bmm"
    ),
    "one matrix with a gradient by a batch: The same; the gradient of a folded matrix is one mm.": Case(
        of(
            lambda x, batch: torch.matmul(x, batch.float()),
            lambda: [torch.rand(1, 3, 4), torch.ones(5, 4, 6, dtype=torch.int64)],
        ),
        "mm | mm",
    ),
    f"product: {_NO_ZERO}": Case(
        of(torch.prod, (3, 4)),
        {
            EVERY: "prod | eq.Scalar fallback:nonzero div.Tensor mul.Tensor",
            "2.0.0": "prod | eq.Scalar nonzero div.Tensor mul.Tensor",
        },
    ),
    f"product over a dimension: {_NO_ZERO}": Case(
        of(lambda x: x.prod(1), (3, 4)),
        "prod.dim_int | eq.Scalar sum.dim_IntList*2 _local_scalar_dense div.Tensor mul.Tensor",
    ),
    "cumulative product: ReduceOps.cpp, cumprod_backward: without a zero a reversed cumulative sum is divided by the "
    "input.": Case(
        of(lambda x: x.cumprod(1), (3, 4)),
        {"2.6.0": "cumprod | mul.Tensor eq.Scalar any _local_scalar_dense flip*2 cumsum div.Tensor"},
    ),
    f"largest element: {_EVENLY}": Case(
        of(torch.max, (3, 4)),
        "max | isnan _local_scalar_dense eq.Tensor sum.dim_IntList div.Tensor masked_fill_.Tensor",
    ),
    f"median of all: {_EVENLY}": Case(
        of(torch.median, (3, 4)),
        {"2.6.0": "median | isnan _local_scalar_dense eq.Tensor sum.dim_IntList div.Tensor masked_fill_.Tensor"},
    ),
    "filling with a tensor that has a gradient: FunctionsManual.cpp, masked_fill_backward: the gradient of the value "
    "is a sum of what is selected.": Case(
        of(
            lambda x, value, mask: x.masked_fill(mask, value),
            lambda: [torch.rand(3, 4), torch.rand(()), torch.ones(3, 4, dtype=torch.bool)],
        ),
        {"2.6.0": "masked_fill_.Tensor | masked_fill_.Scalar masked_select sum.dim_IntList"},
    ),
    "eigenvalues alone: BatchLinearAlgebra.cpp since 2.8: without a gradient no eigenvectors are made.": Case(
        of(torch.linalg.eigvals, (3, 3)), {"2.13.0": "missing:_linalg_eigvals"}, as_traced=True
    ),
}
