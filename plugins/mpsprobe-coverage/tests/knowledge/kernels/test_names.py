"""What a user may call an operator or a release, and which releases there are."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packaging.version import Version

from mpsprobe.errors import UnknownName, UsageError
from mpsprobe_coverage.knowledge.kernels.mps import MPS_FAMILY, torchvision_for
from mpsprobe_coverage.knowledge.kernels.names import resolve_operators
from mpsprobe_coverage.knowledge.kernels.releases import library_releases, torch_releases

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


def test_a_name_may_be_written_in_several_ways() -> None:
    for operators, spellings in SPELLINGS.items():
        for text in spellings.split():
            assert resolve_operators([f" {text}", f"{text} "], MPS_FAMILY.operators) == operators.split(), text
    # Each is named once, and may only have named overloads.
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


RELEASES = st.sampled_from(torch_releases())


def test_every_release_since_mps_came_is_there_in_order() -> None:
    releases = torch_releases()
    assert releases[0] == "1.12.0" and MPS_FAMILY.resolve("latest") == MPS_FAMILY.resolve("Latest") == releases[-1]
    assert list(releases) == sorted(releases, key=Version)
    assert releases.index("2.9.1") + 1 == releases.index("2.10.0")
    minors = {Version(release).release[:2] for release in releases}
    assert minors >= {(1, 12), (1, 13), *((2, minor) for minor in range(16))}


@given(RELEASES, st.sampled_from(["{}", "v{}", " {} ", "{}+cpu", "{}+cu128", "V{}"]))
def test_a_release_has_several_spellings(release: str, form: str) -> None:
    assert MPS_FAMILY.resolve(form.format(release)) == release


@given(RELEASES)
def test_a_minor_release_means_its_newest_patch(release: str) -> None:
    minor = release.rpartition(".")[0]
    assert MPS_FAMILY.resolve(minor) == max((r for r in torch_releases() if r.startswith(f"{minor}.")), key=Version)


def test_a_release_from_before_mps_is_told() -> None:
    for text in ("1.11", "1.11.0", "1.0", "0.4.1", "v1.11.0+cpu"):
        with pytest.raises(UsageError, match=r"MPS came with 1\.12"):
            MPS_FAMILY.resolve(text)


@pytest.mark.parametrize(
    ("text", "near"), [("2.13.9", "2.13.0"), ("2.1.3", "2.1.2"), ("latst", None), ("2.13.0rc1", "2.13.0"), ("2", None)]
)
def test_another_release_gets_the_nearest(text: str, near: str | None) -> None:
    with pytest.raises(UnknownName) as caught:
        MPS_FAMILY.resolve(text)
    assert near is None or near in caught.value.nearest
    assert torch_releases()[0] in str(caught.value.hint)


@given(st.text(max_size=60) | st.lists(st.integers(0, 10**30), min_size=1, max_size=30))
def test_any_text_and_any_numbers_are_a_release_or_an_error(asked: str | list[int]) -> None:
    text = asked if isinstance(asked, str) else ".".join(map(str, asked))
    try:
        assert MPS_FAMILY.resolve(text) in torch_releases()
    except UsageError as error:
        assert error.message.isprintable() and len(error.message) < 400


TORCHVISION = {
    "1.12.1": "0.13.1",  # its metadata asks for any torch
    "2.0.0": "0.15.1",  # 0.15.0 was never published
    "2.13.0": "0.28.0",
    "2.14.0": "0.29.2",  # asks for torch 2.14.0 or newer
    "2.15.0": "0.29.2",
    "1.11.0": None,
}


def test_every_torch_release_has_its_torchvision() -> None:
    assert {release: torchvision_for(release) for release in TORCHVISION} == TORCHVISION
    found = {torchvision_for(release) for release in torch_releases()}
    assert None not in found
    assert len(found) >= len(library_releases("torchvision")) - 2  # 0.29.0 and 0.29.1 gave way to 0.29.2
