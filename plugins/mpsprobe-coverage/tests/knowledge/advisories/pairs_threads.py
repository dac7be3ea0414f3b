"""Pairs of entries that issue threads brought, for several files; see ``pairs.py``."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from pairs import Function, Pair, _lstm, _of, _strided, aten
from torch.nn import functional

LONG = torch.int64


def _padded(index: int) -> Function:
    """An embedding whose padding is row 0, looked up at ``index``."""

    def run(x: torch.Tensor) -> Any:
        return functional.embedding(x.new_full((2,), index, dtype=LONG), x.sum() + x.new_zeros(5, 3), padding_idx=0)

    return run


def _frequent(scaled: bool) -> Function:
    def run(x: torch.Tensor) -> Any:
        rows = x.new_full((2,), 1, dtype=LONG)
        return functional.embedding(rows, x.sum() + x.new_zeros(5, 3), scale_grad_by_freq=scaled)

    return run


def _labelled(label: int) -> Function:
    return lambda x: functional.cross_entropy(x.new_zeros(2, 5), torch.tensor([label, 1], device=x.device))


def _weighed(*shape: int) -> Function:
    """Losses of a shape, each with a gradient of its own."""

    def run(x: torch.Tensor) -> Any:
        losses = functional.binary_cross_entropy(x.sum() + x.new_zeros(shape), x.new_zeros(shape), reduction="none")
        return losses * x.new_ones(shape)

    return run


def _gathered(columns: int) -> Function:
    return lambda x: x.new_zeros(3, columns).gather(0, x.new_zeros(3, columns, dtype=LONG))


def _index_added(permuted: bool) -> Function:
    def run(x: torch.Tensor) -> Any:
        made, source = x.new_zeros(3, 4), x.new_zeros(2, 3)
        index = x.new_zeros(2, dtype=LONG)
        return (made.t() if permuted else made.t().contiguous()).index_add_(0, index, source)

    return run


def _normalised(trained: bool) -> Function:
    """A layer norm with weights that are trained, over data that may be."""

    def run(x: torch.Tensor) -> Any:
        made = x.sum() + x.new_zeros(2, 4)
        return functional.layer_norm(made if trained else made.detach(), (4,), made[0], made[1])

    return run


def _activated(activation: Callable[..., Any], layout: torch.memory_format) -> Function:
    return lambda x: activation((x.sum() + x.new_zeros(2, 3, 4, 4)).contiguous(memory_format=layout))


def _spread(rows: int) -> Function:
    def run(x: torch.Tensor) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about no elements
            return x.new_zeros(rows, 3).var(0)

    return run


def _adam(scaled: bool) -> Function:
    def run(x: torch.Tensor) -> Any:
        made = [[x.new_zeros(3)] for _ in range(4)]
        steps, rates = [x.new_ones(())], {"lr": 0.1, "beta1": 0.9, "beta2": 0.9, "weight_decay": 0.0, "eps": 1e-8}
        more = {"found_inf": x.new_zeros(())} if scaled else {}
        return aten._fused_adam_(*made, [], steps, **rates, amsgrad=False, maximize=False, **more)

    return run


def _added_to(offset: int, dtype: torch.dtype, *, by: str = "index_put_") -> Function:
    def run(x: torch.Tensor) -> torch.Tensor:
        into, index = x.new_zeros(16, dtype=dtype)[offset:], torch.tensor([0, 2], device=x.device)
        if by == "index_put_":
            return into.index_put_((index,), into[:2].clone(), accumulate=True)
        return getattr(into, by)(0, index, into[:2].clone())

    return run


def _reduced_by_index(value: float) -> Function:
    def run(x: torch.Tensor) -> torch.Tensor:
        source = torch.full((2,), value, device=x.device)
        return x.new_zeros(3).index_reduce(0, torch.tensor([0, 2], device=x.device), source, "amax")

    return run


def _added_product(value: float) -> Function:
    def run(x: torch.Tensor) -> torch.Tensor:
        return torch.addcmul(x.new_zeros(2), x.new_ones(2), torch.full((2,), value, device=x.device), value=0)

    return run


def _masked(columns: int) -> Callable[[torch.Tensor], torch.Tensor]:
    def run(x: torch.Tensor) -> torch.Tensor:
        made = x.new_zeros(2, columns)
        made[made == 2] = -1
        return made

    return run


PAIRS = {
    "embedding-padding-gradient": Pair("2.0.1", _padded(0), _padded(1), "training"),
    "nll-loss-default-ignored": Pair("2.0.1", _labelled(-100), _labelled(2)),
    "gather-one-long-dimension": Pair("2.4.1", _gathered(1), _gathered(2)),
    "index-add-transposed-macos-14": Pair("2.10.0", _index_added(permuted=True), _index_added(permuted=False)),
    "index-add-complex": Pair(
        "2.8.0",
        *(
            lambda x, dtype=dtype: x.new_zeros(4, dtype=dtype).index_add_(
                0, torch.arange(4, device=x.device), x.new_zeros(4, dtype=dtype)
            )
            for dtype in (torch.complex64, torch.float32)
        ),
    ),
    "std-empty": Pair("2.12.1", _spread(0), _spread(2)),
    "layer-norm-frozen-input": Pair("2.12.0", _normalised(trained=False), _normalised(trained=True), "training"),
    "silu-strided": Pair("2.5.1", *_strided(functional.silu)),
    "relu-backward-channels-last": Pair(
        "2.1.0",
        _activated(functional.relu, torch.channels_last),
        _activated(functional.relu, torch.contiguous_format),
        "training",
    ),
    "hardswish-backward-channels-last": Pair(
        "2.1.0",
        _activated(functional.hardswish, torch.channels_last),
        _activated(functional.hardswish, torch.contiguous_format),
        "training",
    ),
    "div-integers-by-zero": Pair("1.12.1", *(_of(lambda made, by=by: made / by, (3,), dtype=LONG) for by in (0, 2))),
    "isfinite-large-columns": Pair(
        "2.11.0", *(_of(lambda made: made[:, 4:50].isinf(), (rows, 64)) for rows in (1500000, 1000))
    ),
    "conv1d-kernel-65536": Pair("2.0.0", *(_of(functional.conv1d, (1, 1, 70000), (1, 1, k)) for k in (65536, 65535))),
    "embedding-frequency-gradient": Pair("2.12.0", _frequent(scaled=True), _frequent(scaled=False), "training"),
    "adaptive-pool-enlarging-1-12": Pair(
        "1.12.0", *(_of(lambda made: functional.adaptive_avg_pool2d(made, 7), (1, 2, size, size)) for size in (4, 14))
    ),
    "lstm-backward-macos-14-4": Pair("2.3.0", _lstm(1, 0.0), _padded(1), "training"),
    "copysign-number": Pair("2.7.0", lambda x: x.copysign(-2.0), lambda x: x.copysign(x)),
    "bce-backward-column": Pair("2.9.1", _weighed(4, 1, 1), _weighed(4, 1), "training"),
    "clamp-transposed-bounds": Pair("1.13.0", *_strided(lambda made, low: made.contiguous().clamp(low, None), 2)),
    "exponential-negative-zeros": Pair(
        "2.13.0", *(_of(lambda made: made.exponential_(), (number,)) for number in (100000, 1000))
    ),
    "accumulate-bool-offset": Pair("2.14.0", *(_added_to(offset, torch.bool) for offset in (1, 4))),
    "accumulate-half-offset": Pair("2.11.0", *(_added_to(offset, torch.float16) for offset in (1, 2))),
    "scatter-add-bool-offset": Pair("2.14.0", *(_added_to(offset, torch.bool, by="scatter_add_") for offset in (1, 4))),
    "index-reduce-nan": Pair("2.14.0", _reduced_by_index(float("nan")), _reduced_by_index(1.0)),
    "addcmul-value-zero-nan": Pair("2.14.0", _added_product(float("nan")), _added_product(1.0)),
    "logical-complex": Pair(
        "2.14.0", *(_of(lambda made: made.logical_and(made), (2,), dtype=dtype) for dtype in (torch.complex64, LONG))
    ),
    "matmul-out-slice-macos-14": Pair(
        "2.13.0",
        *(
            _of(lambda made, row=row: torch.mm(made[0].clone(), made[0].clone(), out=made[row]), (2, 3, 3))
            for row in (1, 0)
        ),
    ),
    "activation-nan": Pair(
        "2.12.0",
        *(lambda x, value=value: torch.full((2,), value, device=x.device).relu() for value in (float("nan"), 1.0)),
    ),
    "mask-assign-macos-14-4": Pair("2.2.2", _masked(3), _masked(2)),
    "fused-adam-scaler": Pair("2.12.0", _adam(scaled=True), _adam(scaled=False)),
}
