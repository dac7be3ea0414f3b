"""What a user may call an operator."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpsprobe.errors import UnknownName
from mpsprobe_coverage.kernels.mps import MPS_FAMILY
from mpsprobe_coverage.kernels.names import resolve_operators

OPERATORS = sorted(MPS_FAMILY.operators)


SPELLINGS = {
    "aten::linalg_qr.out": "aten::linalg_qr.out linalg_qr.out aten.linalg_qr.out torch.ops.aten.linalg_qr.out",
    # A name without an overload means all of them.
    "aten::linalg_qr aten::linalg_qr.out": "aten::linalg_qr linalg_qr torch.linalg_qr torch.linalg.qr aten.linalg_qr",
    "aten::abs": "aten::abs.default abs.default",
    "torchvision::nms": "torchvision::nms torchvision.ops.nms nms",
    "aten::abs_": "torch.Tensor.abs_",
    "aten::relu aten::relu.out": "torch.nn.functional.relu",
    "aten::fft_fft aten::fft_fft.out": "torch.fft.fft",
}


@pytest.mark.parametrize("operators", SPELLINGS)
def test_a_name_may_be_written_in_several_ways(operators: str) -> None:
    for text in SPELLINGS[operators].split():
        assert resolve_operators([f" {text}", f"{text} "], MPS_FAMILY.operators) == operators.split(), text


def test_each_is_named_once_and_may_only_have_named_overloads() -> None:
    assert resolve_operators(["abs.default", "abs"], MPS_FAMILY.operators) == ["aten::abs", "aten::abs.out"]
    assert "aten::add.Tensor" in resolve_operators(["torch.add"], MPS_FAMILY.operators)


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


@settings(max_examples=30)  # each looks for the nearest of 3,000 names
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
