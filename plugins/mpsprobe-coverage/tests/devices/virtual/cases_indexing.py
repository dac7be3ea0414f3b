"""Indexing, scattering, sorting, transforms: what a Mac calls, and why.

Where nothing else is said: the MPS keys of native_functions.yaml, also through structured delegates. An operator that
is structured without an MPS kernel has a generated composite form that calls its ``.out`` form, which is then missing.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from expectations import EVERY, Case, of

_ROW = torch.tensor([1, 0])
_PLACES = torch.tensor([[1, 0, 2], [0, 2, 1]])
_MASK = torch.tensor([[True, False, True], [False, True, False]])


def _matrix() -> list[torch.Tensor]:
    return [torch.arange(6.0).reshape(2, 3)]


def _two() -> list[torch.Tensor]:
    return [torch.arange(6.0).reshape(2, 3), torch.ones(2, 3)]


def _case(
    run: Callable[..., Any],
    expected: dict[str, str] | str,
    inputs: Callable[[], Sequence[torch.Tensor]] = _matrix,
    as_traced: bool = False,
) -> Case:
    return Case(of(run, inputs), expected, as_traced)


def _written(x: torch.Tensor, run: Callable[[torch.Tensor], Any]) -> torch.Tensor:
    copied = x.clone()
    run(copied)
    return copied


def _quiet(run: Callable[..., Any]) -> Callable[..., Any]:
    """``run``, of which torch says that an argument is deprecated, or that it is in beta."""

    def warned(*given: torch.Tensor) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            return run(*given)

    return warned


def _since(name: str, release: str, missing: str | None = None) -> dict[str, str]:
    absent = "missing:" + (missing or name)
    return {EVERY: absent, release: name}


def _on(x: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(x.device)


INDEX = {
    "index: index.Tensor and _index_put_impl_ have kernels from 1.13.0 on; the gradient is put into zeros.": _case(
        lambda x: x[_on(x, _ROW)],
        {EVERY: "missing:index.Tensor | missing:_index_put_impl_", "1.13.1": "index.Tensor | _index_put_impl_"},
    ),
    "index by a mask": _case(lambda x: x[_on(x, _MASK)], _since("index.Tensor", "1.13.1")),
    "index by an integer and a slice: Views only: select and slice.": _case(lambda x: x[1, :2] * 2, "mul.Tensor"),
    "assign to an index: index_put_ is CompositeExplicitAutograd: _index_put_impl_. TensorIndexing.h of 2.15 fills "
    "with a number.": _case(
        lambda x: _written(x, lambda c: c.__setitem__(_on(x, _ROW), 7.0)),
        {**_since("_index_put_impl_", "1.13.1"), "2.15.0": "index_fill_.int_Scalar"},
        as_traced=True,
    ),
    "assign to a mask: index_put_ is CompositeExplicitAutograd: _index_put_impl_. TensorIndexing.h of 2.15 fills with "
    "a number.": _case(
        lambda x: _written(x, lambda c: c.__setitem__(_on(x, _MASK), 7.0)),
        {**_since("_index_put_impl_", "1.13.1"), "2.15.0": "masked_fill_.Scalar"},
        as_traced=True,
    ),
    "index_put out of place: index_put is CompositeExplicitAutograd: a copy, then _index_put_impl_.": _case(
        lambda x: x.index_put((_on(x, _ROW),), x[0] * 1, accumulate=True),
        {EVERY: "mul.Tensor missing:_index_put_impl_", "1.13.1": "mul.Tensor _index_put_impl_"},
    ),
    "index_select": _case(lambda x: x.index_select(0, _on(x, _ROW)), "index_select"),
    "index_add": _case(
        lambda x, y: x.index_add(0, _on(x, _ROW), y), _since("index_add", "1.13.1", "index_add.out"), _two
    ),
    "index_copy": _case(
        lambda x, y: x.index_copy(0, _on(x, _ROW), y), _since("index_copy", "2.13.0", "index_copy.out"), _two
    ),
    "index_fill: index_fill.int_Scalar is CompositeExplicitAutograd: a copy, then the form in place.": _case(
        lambda x: x.index_fill(0, _on(x, _ROW), 7.0), _since("index_fill_.int_Scalar", "2.4.1")
    ),
    "index_reduce": _case(
        _quiet(lambda x, y: x.index_reduce(0, _on(x, _ROW), y, "amax")),
        _since("index_reduce", "2.13.0", "index_reduce.out"),
        _two,
    ),
    "take": _case(lambda x: x.take(_on(x, _ROW)), _since("take", "2.15.0")),
    "take_along_dim: take_along_dim is CompositeImplicitAutograd: gather. From 2.10.0 on it wraps negative indices by "
    "remainder (its helper calls remainder_Scalar from there on).": _case(
        lambda x: x.take_along_dim(_on(x, _PLACES), 1),
        {EVERY: "gather", "2.13.0": "remainder.Tensor gather"},
        as_traced=True,
    ),
    "put_: 1.12 and 1.13 register put_ for MPS, 2.0 to 2.14 do not; in 1.13 nothing sets the MPS kernel of "
    "put_stub.": _case(
        lambda x: _written(x, lambda c: c.put_(_on(x, _ROW), x[0, :2])),
        {EVERY: "put_", "1.13.0": "unsupported:put_", "2.0.0": "missing:put_", "2.15.0": "put_"},
    ),
    "masked_fill: masked_fill.Scalar is CompositeExplicitAutograd: a copy, then the form in place.": _case(
        lambda x: x.masked_fill(_on(x, _MASK), 7.0), "masked_fill_.Scalar"
    ),
    "masked_scatter: masked_scatter is CompositeExplicitAutograd: a copy, then the form in place.": _case(
        lambda x, y: x.masked_scatter(_on(x, _MASK), y), _since("masked_scatter_", "2.4.1"), _two
    ),
    "masked_select: MPSFallback.mm of 1.12 sends masked_select to the CPU.": _case(
        lambda x: x.masked_select(_on(x, _MASK)), {EVERY: "fallback:masked_select", "1.13.1": "masked_select"}
    ),
    "where": _case(lambda x, y: torch.where(_on(x, _MASK), x, y), "where.self", _two),
    "nonzero: MPSFallback.mm of 1.12 and 1.13 sends nonzero to the CPU.": _case(
        torch.nonzero, {EVERY: "fallback:nonzero", "2.0.0": "nonzero"}
    ),
    "where without values: where of one argument is nonzero_numpy: nonzero and views.": _case(
        lambda x: torch.where(x)[0], {EVERY: "fallback:nonzero", "2.0.0": "nonzero"}
    ),
}

SCATTER = {
    "gather: gather_backward adds the gradient into zeros by scatter_add.": _case(
        lambda x: x.gather(1, _on(x, _PLACES)), "gather | scatter_add"
    ),
    "scatter": _case(lambda x, y: x.scatter(1, _on(x, _PLACES), y), "scatter.src", _two),
    "scatter a number": _case(lambda x: x.scatter(1, _on(x, _PLACES), 1.0), "scatter.value"),
    "scatter in place": _case(lambda x: _written(x, lambda c: c.scatter_(1, _on(x, _PLACES), x)), "scatter_.src"),
    "scatter with a reduction": _case(
        _quiet(lambda x, y: x.scatter(1, _on(x, _PLACES), y, reduce="add")), "scatter.reduce", _two
    ),
    "scatter_add": _case(lambda x, y: x.scatter_add(1, _on(x, _PLACES), y), "scatter_add | gather", _two),
    "scatter_reduce": _case(
        lambda x, y: x.scatter_reduce(1, _on(x, _PLACES), y, "amax"),
        _since("scatter_reduce.two", "2.6.0", "scatter_reduce.two_out"),
        _two,
    ),
}

ORDER = {
    "sort: sort is CompositeExplicitAutograd: sort.stable, which is structured.": _case(
        lambda x: x.sort(dim=1)[0], _since("sort.stable", "2.0.0", "sort.values_stable")
    ),
    "argsort: argsort is CompositeImplicitAutograd: sort.": _case(
        lambda x: x.argsort(dim=1), _since("sort.stable", "2.0.0", "sort.values_stable")
    ),
    "topk": _case(lambda x: x.topk(2)[0], "topk"),
    "kthvalue: kthvalue is CompositeExplicitAutograd: kthvalue.values.": _case(
        lambda x: x.kthvalue(2)[0], _since("kthvalue.values", "2.13.0")
    ),
    "median of a dimension: median.dim is CompositeExplicitAutograd: median.dim_values.": _case(
        lambda x: x.median(1)[0], _since("median.dim_values", "2.0.0")
    ),
    "cumsum": _case(lambda x: x.cumsum(1), _since("cumsum", "2.0.0", "cumsum.out")),
    "cumprod": _case(lambda x: x.cumprod(1), _since("cumprod", "2.4.1", "cumprod.out")),
    "unique: torch/functional.py: _unique2.": _case(torch.unique, _since("_unique2", "2.0.0")),
    "unique rows: torch/functional.py: unique_dim.": _case(
        lambda x: torch.unique(x, dim=0), _since("unique_dim", "2.13.0")
    ),
    "unique_consecutive": _case(torch.unique_consecutive, _since("unique_consecutive", "2.0.0")),
    "flip": _case(lambda x: x.flip(0), "flip"),
    "roll": _case(lambda x: x.roll(1, 0), _since("roll", "2.4.1")),
}

TRANSFORMS = {
    "fft of real numbers: fft of real input is _fft_r2c with both halves; MPSFallback.mm of 1.12 and 1.13 sends it to "
    "the CPU.": _case(
        lambda x: torch.fft.fft(x), {EVERY: "fallback:_fft_r2c", "2.0.0": "missing:_fft_r2c", "2.4.1": "_fft_r2c"}
    ),
    "rfft: MPSFallback.mm of 1.12 and 1.13 sends it to the CPU; a kernel from 2.3.0 on.": _case(
        lambda x: torch.fft.rfft(x), {EVERY: "fallback:_fft_r2c", "2.0.0": "missing:_fft_r2c", "2.4.1": "_fft_r2c"}
    ),
}

_YAML = "native_functions.yaml: the MPS key says since when."
CASES = {
    text if ":" in text else f"{text}: {_YAML}": case for text, case in (INDEX | SCATTER | ORDER | TRANSFORMS).items()
}
