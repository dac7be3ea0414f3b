"""Dispatch entries of a yaml, by key."""

from __future__ import annotations

import pytest
from mpsprobe.errors import TableError

from mpsprobe_xpu import entries

YAML = """
- func: mm(Tensor self, Tensor mat2) -> Tensor
  structured_delegate: mm.out
- func: mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)
  structured: True
  dispatch:
    CPU: mm_out_cpu
    CUDA, XPU : mm_out_gpu   # two keys, and a comment
- func: relu(Tensor self) -> Tensor
  dispatch:
    CPU, CUDA: relu
- func: _sparse_mm(Tensor a) -> Tensor
  dispatch:
    SparseXPU: sparse_mm
- func: add.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)
  ufunc_inner_loop:
    Generic: add (AllAndComplex)
- func: linear(Tensor input) -> Tensor
- func: nothing(Tensor input) -> Tensor
  dispatch: {}
- func: lost.out(Tensor input) -> Tensor
  structured_delegate: not_there.out
"""


def test_keys_and_delegates() -> None:
    found = entries.kernels(YAML, "XPU", "a yaml")
    assert found == {"XPU": {"aten::mm", "aten::mm.out"}, "SparseXPU": {"aten::_sparse_mm"}}


def test_of_another_backend() -> None:
    assert entries.kernels(YAML, "CUDA", "a yaml") == {
        "CUDA": {"aten::add.out", "aten::mm", "aten::mm.out", "aten::relu"}
    }
    assert entries.kernels(YAML, "HPU", "a yaml") == {}


@pytest.mark.parametrize(
    "text",
    ["", "a: b", "- 1", "- func: 7", "[", "- func: (nameless)", "!!python/object/apply:os.system ['true']", "- null"],
)
def test_what_is_no_such_yaml(text: str) -> None:
    with pytest.raises(TableError, match=r"a\.yaml is no"):
        entries.kernels(text, "XPU", "a.yaml")
