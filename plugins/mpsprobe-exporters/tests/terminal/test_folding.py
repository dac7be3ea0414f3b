"""Names are broken at their joints, and nothing is lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpsprobe_exporters.terminal.drawing import fold_name


@pytest.mark.parametrize(
    ("name", "width", "lines"),
    [
        ("", 10, [""]),
        ("aten::linear", 12, ["aten::linear"]),
        ("aten::linalg_qr.out", 16, ["aten::linalg_qr.", "  out"]),
        ("aten::_scaled_dot_product_attention", 20, ["aten::_scaled_dot_", "  product_attention"]),
        ("torchvision::nms", 14, ["torchvision::", "  nms"]),
        ("BertSelfAttention", 10, ["BertSelf", "  Attention"[:10], "  n"]),
        ("aaaaaaaaaaaa", 5, ["aaaaa", "  aaa", "  aaa", "  a"]),
    ],
)
def test_examples(name: str, width: int, lines: list[str]) -> None:
    assert fold_name(name, width) == lines


@given(st.text(alphabet="ab_.:AB", max_size=60), st.integers(min_value=1, max_value=40))
def test_lines_fit_and_hold_the_name(name: str, width: int) -> None:
    lines = fold_name(name, width)
    assert "".join(line.strip() for line in lines) == name
    assert all(len(line) <= width for line in lines)
