"""Operators that a release has under another form than the torch that traces, and some with gaps: what a Mac calls."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812 - as everyone calls it
from expectations import Case, of

EVERY = "1.12.1"
_CHECKED = "any _local_scalar_dense"  # _linalg_check_errors reads infos.any()

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
}
