"""What a Mac calls for operators that differ between releases or have gaps, and where C++ treats subclasses apart."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F  # noqa: N812 - as everyone calls it
from expectations import EVERY, Case, of

_CHECKED = "any _local_scalar_dense"  # _linalg_check_errors reads infos.any()

_NO_ZERO = "FunctionsManual.cpp, prod_backward: without a zero the result is divided by each element."
_EVENLY = "FunctionsManual.cpp, evenly_distribute_backward: value.isnan().item(), then a mask is filled."


def _speech() -> Sequence[torch.Tensor]:
    return [torch.rand(5, 2, 4), torch.tensor([[1, 2], [3, 1]]), torch.tensor([5, 5]), torch.tensor([2, 2])]


CASES = {
    "weight norm: _weight_norm takes _weight_norm_interface; a kernel from 2.2.0 on, for both directions.": Case(
        of(lambda v, g: torch._weight_norm(v, g, 0), (3, 4), (3, 1)),
        {EVERY: "missing:_weight_norm_interface", "2.4.1": "_weight_norm_interface | _weight_norm_interface_backward"},
    ),
    "grid sampling: grid_sampler of 4-D input is grid_sampler_2d: a kernel from 2.0.0 on, for its gradient from 2.13.0 "
    "on.": Case(
        of(lambda x, grid: F.grid_sample(x, grid, align_corners=False), (1, 2, 4, 4), (1, 3, 3, 2)),
        {
            EVERY: "missing:grid_sampler_2d | missing:grid_sampler_2d_backward",
            "2.0.0": "grid_sampler_2d | missing:grid_sampler_2d_backward",
            "2.13.0": "grid_sampler_2d | grid_sampler_2d_backward",
        },
    ),
    "repeat_interleave by a number: MPSFallback.mm of 1.12 and 1.13 sends it to the CPU; later an expanded view that "
    "is copied.": Case(
        of(lambda x: x.repeat_interleave(2, 0), (2, 3)), {EVERY: "fallback:repeat_interleave.self_int", "2.0.0": ""}
    ),
    "prelu: 1.12 has kernels of prelu for CPU and CUDA, 1.13 one for MPS; from 2.0.0 on it is composite: "
    "_prelu_kernel.": Case(
        of(F.prelu, (2, 3), (1,)), {EVERY: "missing:prelu", "1.13.1": "prelu", "2.0.0": "_prelu_kernel"}
    ),
    "prelu, training: The gradient of the one weight is summed over what it was expanded to.": Case(
        of(F.prelu, (2, 3), (1,)),
        {
            "1.13.1": "prelu | prelu_backward sum.dim_IntList",
            "2.0.0": "_prelu_kernel | _prelu_kernel_backward sum.dim_IntList",
        },
    ),
    "solving equations: linalg_solve has kernels of its own in 1.12 (CPU, CUDA), is composite later: _linalg_solve_ex, "
    "from 2.7.0 on.": Case(
        of(torch.linalg.solve, (3, 3), (3, 1)),
        {
            EVERY: "missing:linalg_solve",
            "1.13.1": f"missing:_linalg_solve_ex.result {_CHECKED}",
            "2.13.0": f"_linalg_solve_ex {_CHECKED}",
        },
    ),
    "index_select, training: Its gradient is added into zeros by index_add, whose kernel came with 1.13.0.": Case(
        of(lambda x, rows: x.index_select(0, rows), lambda: [torch.rand(3, 2), torch.tensor([1, 0])]),
        {EVERY: "index_select | missing:index_add.out", "1.13.1": "index_select | index_add"},
    ),
    "unfold: im2col: missing up to 1.13, registered to fall back from 2.0 on, a kernel from 2.6.0 on.": Case(
        of(lambda x: F.unfold(x, 2), (1, 2, 4, 4)),
        {EVERY: "missing:im2col", "2.0.0": "fallback:im2col", "2.6.0": "im2col"},
    ),
    # Where C++ goes another way for a subclass of tensors than for a tensor of a Mac.
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
