"""The readers of text: native_functions.yaml, and what the wheel's Python files say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_wheel import DECLARED

from mpsprobe.errors import TableError
from mpsprobe_tables.builder.declared import declared_kernels, parse_native_functions
from mpsprobe_tables.builder.python_sources import commit, optimizer_markers, parse, registered_from_python


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


def test_comments_and_what_stands_elsewhere_say_nothing() -> None:
    text = "# head\n- func: f(Tensor x) -> Tensor  # note\n  dispatch:\n    # MPS: not_yet\n    CPU: f  # MPS: no\n"
    text += "  tags:\n    MPS: f\n- func: g(Tensor x) -> Tensor\n    MPS: g\n  dispatch:\n    CPU: g\n"
    assert declared_kernels(parse_native_functions(text)) == {}


@given(st.sampled_from(["", "# nothing", "func: f(Tensor x)", "\0"]) | st.text(max_size=60).map(DECLARED.__add__))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        parse_native_functions(text)
        assert text.startswith(DECLARED)
    except TableError as error:
        assert "native_functions.yaml" in error.message


def _registered(source: str) -> set[str]:
    return registered_from_python(parse(source, "x.py"))


def test_what_is_registered_from_python() -> None:
    key_in_call = 'from torch.library import Library as _Library\n_lib: object = _Library("aten", "IMPL")\n'
    key_in_call += '_lib.impl("native_group_norm", f, "MPS")\n_lib.impl("abs", f, "CPU")\n_lib.impl("relu", f)\n'
    # torch/_refs/linalg/__init__.py of 2.13.0
    key_in_library = 'mps_lib = torch.library.Library("aten", "IMPL", "MPS")\nmps_lib.impl("aten::lu_solve.out", f)\n'
    other = 'lib = Library("aten", "DEF")\nlib.impl("a", f)\nlib.define("b", "MPS")\nx.impl(1, "MPS")\ny().impl("c")\n'
    assert _registered(key_in_call) == {"aten::native_group_norm"}
    assert _registered(key_in_library) == {"aten::lu_solve.out"}
    assert _registered('lib = Library("mine", "IMPL", "MPS")\nlib.impl("op", f)\n') == {"mine::op"}
    assert _registered(other) == set()


def test_the_commit() -> None:
    assert commit(parse("__version__ = '2.13.0'\ncuda: str | None = None\ngit_version = 'c0ffee'\n", "v")) == "c0ffee"
    assert commit(parse("__version__ = '2.13.0'\n", "v")) is None


def test_which_optimizer_kernels_are_for_mps() -> None:
    source = 'def _get_foreach_kernels_supported_devices():\n    return ["cuda"]\n'
    source += 'def _get_fused_kernels_supported_devices():\n    return ["mps", "cuda"]\n'
    assert optimizer_markers(parse(source, "f")) == {"fused_mps"}


def test_what_is_no_python_is_told() -> None:
    for source in ("def", "\0", "(" * 5000, "x = '\\ud800'\n\tif"):
        with pytest.raises(TableError, match=r"version\.py is not a Python file"):
            parse(source, "version.py")


@given(st.text(max_size=80))
def test_any_text_is_parsed_or_refused(source: str) -> None:
    try:
        registered_from_python(parse(source, "x.py"))
    except TableError as error:
        assert "x.py" in error.message
