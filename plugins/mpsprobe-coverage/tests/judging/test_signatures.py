"""Signatures: what of a call tells it from others of the same operator."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from mpsprobe_coverage.judging.signatures import dtypes_in, flags_of, signature, without_flags

aten = torch.ops.aten
TENSOR = torch.ones(2)


@pytest.mark.parametrize(
    ("func", "args", "kwargs", "flags"),
    [
        (aten._index_put_impl_.default, (TENSOR, [TENSOR], TENSOR), {}, ()),
        (aten._index_put_impl_.default, (TENSOR, [TENSOR], TENSOR, False, False), {}, ()),
        (aten._index_put_impl_.default, (TENSOR, [TENSOR], TENSOR, True), {}, ("accumulate",)),
        (aten._index_put_impl_.default, (TENSOR, [TENSOR], TENSOR), {"accumulate": True}, ("accumulate",)),
        (aten._index_put_impl_.default, (TENSOR, [TENSOR], TENSOR, True, True), {}, ("accumulate", "unsafe")),
        (aten.topk.default, (TENSOR, 1), {}, ()),
        (aten.topk.default, (TENSOR, 1, 0, False), {"sorted": False}, ("largest=False", "sorted=False")),
        (aten.sort.stable, (TENSOR,), {"stable": None}, ()),  # no default: nothing and False are the same
        (aten.sort.stable, (TENSOR,), {"stable": False}, ()),
        (aten.sort.stable, (TENSOR,), {"stable": True, "descending": True}, ("stable", "descending")),
        (aten.gelu.default, (TENSOR,), {"approximate": "none"}, ()),
        (aten.gelu.default, (TENSOR,), {"approximate": "tanh"}, ("approximate=tanh",)),
        (aten.gelu.default, (TENSOR,), {"approximate": None}, ("approximate=None",)),
        (aten.div.Tensor_mode, (TENSOR, TENSOR), {"rounding_mode": None}, ()),
        (aten.div.Tensor_mode, (TENSOR, TENSOR), {"rounding_mode": "floor"}, ("rounding_mode=floor",)),
        (
            aten.scatter_reduce.two,
            (TENSOR, 0, TENSOR, TENSOR, "amax"),
            {"include_self": False},
            ("reduce=amax", "include_self=False"),
        ),
        (aten.std.correction, (TENSOR, [0]), {"correction": 2}, ()),  # numbers are in no signature
        (aten.abs.default, (TENSOR,), {}, ()),
        (aten.einsum.default, ("a,b->ab|@ ", [TENSOR, TENSOR]), {}, ("equation=a%2Cb-%3Eab%7C%40%20",)),
    ],
)
def test_flags_are_what_differs_from_the_default(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], flags: tuple[str, ...]
) -> None:
    assert flags_of(func, args, kwargs) == flags


@pytest.mark.parametrize(
    ("inputs", "outputs", "flags", "made"),
    [
        (("int64", "int64"), ("int64",), (), "int64"),
        (("int64",), ("float32",), (), "int64>float32"),
        ((), ("float32",), (), ">float32"),
        (("float32", "int64"), ("float32", "bool"), ("a", "b=c"), "float32 int64>bool with a, b=c"),
    ],
)
def test_a_signature_can_be_taken_apart(
    inputs: tuple[str, ...], outputs: tuple[str, ...], flags: tuple[str, ...], made: str
) -> None:
    found = signature(inputs, outputs, flags)
    assert found == made
    assert without_flags(found) == signature(inputs, outputs)
    assert dtypes_in(found) == list(dict.fromkeys((*inputs, *outputs)))
