"""The reader of native_functions.yaml."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from made_wheel import DECLARED

from mpsprobe.errors import TableError
from mpsprobe_tables.builder.declared import declared_kernels, parse_native_functions


def test_keys_delegates_and_what_has_none() -> None:
    assert declared_kernels(parse_native_functions(DECLARED)) == {
        "CompositeExplicitAutograd": {"aten::abs"},
        "CompositeImplicitAutograd": {"aten::linear"},  # and not "gone", whose dispatch is empty on purpose
        "MPS": {"aten::add.out", "aten::add.Tensor"},
        "SparseMPS": {"aten::abs"},
    }


def test_sparse_kernels_are_not_inherited_from_a_delegate() -> None:
    # torchgen makes structured kernels for dense backends only: pow_.Scalar has none for SparseMPS in 2.13.0.
    text = (
        "- func: pow.out(Tensor self) -> Tensor\n  dispatch:\n    MPS: pow_mps\n    SparseMPS: pow_sparse\n"
        "- func: pow_.Scalar(Tensor self) -> Tensor\n  structured_delegate: pow.out\n"
    )
    found = declared_kernels(parse_native_functions(text))
    assert found == {"MPS": {"aten::pow.out", "aten::pow_.Scalar"}, "SparseMPS": {"aten::pow.out"}}


def test_comments_say_nothing() -> None:
    text = "# head\n- func: f(Tensor x) -> Tensor  # note\n  dispatch:\n    # MPS: not_yet\n    CPU: f  # MPS: no\n"
    assert declared_kernels(parse_native_functions(text)) == {}


@given(st.sampled_from(["", "# nothing", "func: f(Tensor x)", "\0"]) | st.text(max_size=60).map(DECLARED.__add__))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        parse_native_functions(text)
        assert text.startswith(DECLARED)
    except TableError as error:
        assert "native_functions.yaml" in error.message
