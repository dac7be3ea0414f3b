"""What a user may call an operator."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpsprobe.errors import UnknownName
from mpsprobe_coverage.kernels.mps import MPS_FAMILY
from mpsprobe_coverage.kernels.names import resolve_operators

OPERATORS = sorted(MPS_FAMILY.operators)


def test_one_overload() -> None:
    for prefix in ("aten::", "", "aten.", "torch.ops.aten.", " "):
        assert resolve_operators([f"{prefix}linalg_qr.out"], MPS_FAMILY.operators) == ["aten::linalg_qr.out"], prefix
    assert resolve_operators(["linalg_qr.out "], MPS_FAMILY.operators) == ["aten::linalg_qr.out"]


def test_a_name_without_an_overload_means_all_of_them() -> None:
    for text in ("aten::linalg_qr", "linalg_qr", "torch.linalg_qr", "torch.linalg.qr", "aten.linalg_qr"):
        assert resolve_operators([text], MPS_FAMILY.operators) == ["aten::linalg_qr", "aten::linalg_qr.out"], text


def test_the_overload_without_a_name_can_be_named() -> None:
    assert resolve_operators(["aten::abs.default"], MPS_FAMILY.operators) == ["aten::abs"]
    assert resolve_operators(["abs.default", "abs"], MPS_FAMILY.operators) == ["aten::abs", "aten::abs.out"]


def test_a_name_may_only_have_named_overloads() -> None:
    assert "aten::add.Tensor" in resolve_operators(["torch.add"], MPS_FAMILY.operators)


def test_operators_of_torchvision() -> None:
    for text in ("torchvision::nms", "torchvision.ops.nms", "nms"):
        assert resolve_operators([text], MPS_FAMILY.operators) == ["torchvision::nms"], text


def test_methods_and_functions() -> None:
    assert resolve_operators(["torch.Tensor.abs_"], MPS_FAMILY.operators) == ["aten::abs_"]
    assert "aten::relu" in resolve_operators(["torch.nn.functional.relu"], MPS_FAMILY.operators)
    assert "aten::fft_fft" in resolve_operators(["torch.fft.fft"], MPS_FAMILY.operators)


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("abss", "abs"),
        ("aten::linalg_qrr", "aten::linalg_qr"),
        ("aten::add.Tensr", "aten::add.Tensor"),
        ("LINEAR", "linear"),
    ],
)
def test_another_name_gets_the_nearest(text: str, near: str) -> None:
    with pytest.raises(UnknownName) as caught:
        resolve_operators([text], MPS_FAMILY.operators)
    assert near in caught.value.nearest


@given(st.sampled_from(OPERATORS))
def test_every_operator_is_found_by_its_own_name(operator: str) -> None:
    found = resolve_operators([operator], MPS_FAMILY.operators)
    assert operator in found
    assert all(other == operator or other.startswith(f"{operator}.") for other in found)


@given(st.text(max_size=20))
def test_any_text_is_an_operator_or_an_error(text: str) -> None:
    try:
        assert set(resolve_operators([text], MPS_FAMILY.operators)) <= MPS_FAMILY.operators
    except UnknownName as error:
        assert error.message.isprintable()


def test_hostile_text() -> None:
    for text in ("", "::", "aten::", ".", "aten::abs\nx", "\x1b[31m", "a" * 10_000, "torch.", "*"):
        with pytest.raises(UnknownName) as caught:
            resolve_operators([text], MPS_FAMILY.operators)
        assert len(caught.value.message) < 600, text
