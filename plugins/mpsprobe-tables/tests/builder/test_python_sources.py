"""What the wheel's Python files say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpsprobe.errors import TableError
from mpsprobe_tables.builder.python_sources import commit, optimizer_markers, parse, registered_from_python


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
