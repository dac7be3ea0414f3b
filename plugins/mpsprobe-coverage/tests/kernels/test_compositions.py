"""Of what releases make their composite operators and derivatives, and how two releases differ."""

from __future__ import annotations

import pytest

from mpsprobe.errors import TableError
from mpsprobe_coverage.kernels.compositions import (
    HARMLESS,
    MAGIC,
    Differences,
    composition_releases,
    decode_compositions,
    load_compositions,
)
from mpsprobe_coverage.kernels.format import unseal
from mpsprobe_coverage.kernels.mps import load_table
from mpsprobe_coverage.kernels.releases import data_folder, torch_releases


def test_every_release_has_a_file_that_is_of_the_wheel_of_its_table() -> None:
    assert composition_releases() == torch_releases()
    wrong = [r for r in torch_releases() if load_compositions(r).sha256 != load_table(r).sha256]
    assert not wrong


def test_each_composite_operator_is_known() -> None:
    unknown = {
        (release, name)
        for release in torch_releases()
        for name in load_table(release).operators
        if name.startswith("aten::") and load_table(release).verdict(name) == "composite"
        if name.removeprefix("aten::") not in load_compositions(release).calls
    }
    assert not {name for _, name in unknown}


def test_what_is_harmless_is_served_by_every_release() -> None:
    lacking = {
        (release, name)
        for release in torch_releases()
        for name in load_table(release).operators
        if name.removeprefix("aten::").partition(".")[0] in HARMLESS
        if load_table(release).verdict(name) not in ("native", "composite")
    }
    assert not lacking


@pytest.mark.parametrize(
    ("release", "name", "calls"),
    [
        # aten/src/ATen/native/Distance.cpp and tools/autograd/derivatives.yaml of these releases.
        ("2.0.1", "cosine_similarity", {"clamp_min_", "div.Tensor", "mul.Tensor", "pow.Tensor_Scalar"}),
        ("2.5.1", "cosine_similarity", {"clamp_min_", "div.Tensor", "mul.Tensor", "linalg_vector_norm"}),
        ("2.13.0", "ClampMinBackward0", {"ge.Scalar", "where.self"}),
        ("2.15.0", "ClampMinBackward0", {"gt.Scalar", "where.self"}),
    ],
)
def test_compositions_are_those_of_the_source(release: str, name: str, calls: set[str]) -> None:
    assert calls <= load_compositions(release).calls[name]


def test_writing_through_an_index_fills_since_2_15() -> None:
    before, now = (load_compositions(r).calls["Tensor.__setitem__"] for r in ("2.14.1", "2.15.0"))
    assert now - before == {"index_fill_.int_Scalar", "masked_fill_.Scalar"}


def test_the_same_release_differs_in_nothing() -> None:
    assert not Differences(load_table("2.13.0"), "2.13.0").names


def test_an_operator_that_only_the_tracer_calls_is_no_part_of_the_composition() -> None:
    found = Differences(load_table("2.12.1"), "2.13.0").of("aten::one_hot")
    assert found is not None
    assert (found.has("aten::min"), found.has("aten::aminmax"), found.has("aten::empty.memory_format")) == (
        True,
        False,
        True,
    )


def test_a_kernel_that_is_lacking_on_the_other_way_is_said() -> None:
    found = Differences(load_table("1.12.1"), "2.13.0").of("aten::linalg_det")  # _det_lu_based_helper, in 1.12
    assert found is not None
    assert found.lacks_kernel


def test_a_derivative_that_was_renamed_is_known_by_what_it_calls() -> None:
    found = Differences(load_table("1.12.1"), "2.13.0").of("LinearBackward0")  # MpsLinearBackward0 there
    assert found is not None
    assert (found.has("aten::mps_linear_backward"), found.lacks_kernel) == (True, False)


def test_without_a_file_of_the_tracer_everything_is_in_question() -> None:
    differences = Differences(load_table("2.13.0"), "9.0.0")
    assert differences.names == load_compositions("2.13.0").calls.keys()


def test_a_damaged_file_is_named() -> None:
    data = (data_folder() / "torch-2.13.0.compositions").read_bytes()
    assert unseal(MAGIC, data, "x", dict)["base"] == "2.12.1"
    with pytest.raises(TableError, match=r"x\.compositions is damaged"):
        decode_compositions(data.replace(b"mul.Tensor", b"mul.tensor", 1), "x.compositions")
