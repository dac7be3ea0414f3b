"""What is known of single kernels and of composite operators in each release, as the data files of the package say."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from mpsprobe.errors import TableError
from mpsprobe_coverage.kernels import compositions, kernel_facts
from mpsprobe_coverage.kernels.compositions import Differences, load_compositions
from mpsprobe_coverage.kernels.format import unseal
from mpsprobe_coverage.kernels.kernel_facts import METAL_TYPES, decode_facts, facts_releases, load_facts
from mpsprobe_coverage.kernels.mps import load_table
from mpsprobe_coverage.kernels.releases import data_folder, torch_releases


def test_every_release_has_files_of_the_wheel_of_its_table() -> None:
    assert facts_releases() == compositions.composition_releases() == torch_releases()
    assert load_facts("0.1.0").operators == {}
    for release in torch_releases():
        assert load_facts(release).sha256 == load_compositions(release).sha256 == load_table(release).sha256, release


WHOLE = {"base": None, "release": "2.13.0", "sha256": "", "kernels": {}, "operators": {}}


@pytest.mark.parametrize(
    "document",
    [[], None, {}, {"kernels": []}, {"kernels": {"float": 1}}, {"operators": {"unary:exp": {"aten": "exp"}}}],
)
def test_a_file_of_another_form_is_an_error(document: Any) -> None:
    body = json.dumps({**WHOLE, **document} if document else document).encode()
    signed = f"{kernel_facts.MAGIC} {hashlib.sha256(body).hexdigest()}\n".encode() + body
    with pytest.raises(TableError, match="damaged"):
        decode_facts(signed, "x")


def test_a_damaged_file_is_named() -> None:
    data = (data_folder() / "torch-2.13.0.compositions").read_bytes()
    assert unseal(compositions.MAGIC, data, "x", dict)["base"] == "2.12.1"
    with pytest.raises(TableError, match=r"x\.compositions is damaged"):
        compositions.decode_compositions(data.replace(b"mul.Tensor", b"mul.tensor", 1), "x.compositions")


@pytest.mark.parametrize("release", ["2.8.0", "2.13.0", "2.15.0"])
def test_what_is_known_is_about_operators_and_dtypes_that_there_are(release: str) -> None:
    facts, table = load_facts(release), load_table(release)
    assert set(facts.operators) <= table.native
    for types in facts.kernels.values():
        assert {metal.removeprefix("cast:") for metal in types} <= set(METAL_TYPES)
    for operator in facts.operators:
        for names in facts.operations(operator).values():
            assert names <= set(facts.kernels)


@pytest.mark.parametrize(
    ("release", "operator", "kind", "name", "lacking"),
    [
        ("2.13.0", "aten::exp.out", "unary", "exp", set()),
        ("2.13.0", "aten::hypot", "binary", "hypot", {"int", "long", "float2"}),
        ("2.8.0", "aten::erf.out", "unary", "erf", {"float2"}),
        ("2.13.0", "aten::upsample_bicubic2d", "named", "upsample_bicubic2d_{}", {"uchar", "long"}),
    ],
)
def test_what_the_wheels_say(release: str, operator: str, kind: str, name: str, lacking: set[str]) -> None:
    facts = load_facts(release)
    assert facts.operations(operator) == {kind: {name}}
    assert {"float", "half", "bfloat"} <= facts.kernels[name]
    assert facts.kernels[name].isdisjoint(lacking)
    assert facts.unset_stubs(operator) == frozenset()
    without = load_facts("1.13.1")  # a stub is no kernel
    assert without.unset_stubs("aten::put_") == {"put_stub"}
    assert without.operations("aten::put_") == without.operations("aten::unknown") == {}


def test_composite_operators_are_known_and_what_is_harmless_is_served() -> None:
    unknown, lacking = set(), set()
    for release in torch_releases():
        table, calls = load_table(release), load_compositions(release).calls
        for name in table.operators:
            bare, verdict = name.removeprefix("aten::"), table.verdict(name)
            if name.startswith("aten::") and verdict == "composite" and bare not in calls:
                unknown.add(name)
            if bare.partition(".")[0] in compositions.HARMLESS and verdict not in ("native", "composite"):
                lacking.add((release, name))
    assert not unknown and not lacking


@pytest.mark.parametrize(
    ("release", "name", "calls"),
    [
        # aten/src/ATen/native/Distance.cpp and tools/autograd/derivatives.yaml of these releases.
        ("2.0.1", "cosine_similarity", {"clamp_min_", "div.Tensor", "mul.Tensor", "pow.Tensor_Scalar"}),
        ("2.5.1", "cosine_similarity", {"clamp_min_", "div.Tensor", "mul.Tensor", "linalg_vector_norm"}),
        ("2.13.0", "ClampMinBackward0", {"ge.Scalar", "where.self"}),
        ("2.15.0", "ClampMinBackward0", {"gt.Scalar", "where.self"}),
        ("2.15.0", "Tensor.__setitem__", {"index_fill_.int_Scalar", "masked_fill_.Scalar"}),
    ],
)
def test_compositions_are_those_of_the_source(release: str, name: str, calls: set[str]) -> None:
    assert calls <= load_compositions(release).calls[name]
    if name == "Tensor.__setitem__":
        assert load_compositions("2.14.1").calls[name].isdisjoint(calls)


def test_how_a_composition_differs_from_that_of_the_tracer() -> None:
    assert not Differences(load_table("2.13.0"), "2.13.0").names
    assert Differences(load_table("2.13.0"), "9.0.0").names == load_compositions("2.13.0").calls.keys()  # has no file
    # An operator that only the tracer calls is no part of it.
    one_hot = Differences(load_table("2.12.1"), "2.13.0").of("aten::one_hot")
    assert one_hot is not None
    called = [one_hot.has(f"aten::{name}") for name in ("min", "aminmax", "empty.memory_format")]
    assert called == [True, False, True]
    older = Differences(load_table("1.12.1"), "2.13.0")
    determinant = older.of("aten::linalg_det")  # _det_lu_based_helper in 1.12, which has no kernel
    assert determinant is not None and determinant.lacks_kernel
    # A derivative that was renamed is known by what it calls: MpsLinearBackward0 there.
    linear = older.of("LinearBackward0")
    assert linear is not None and linear.has("aten::mps_linear_backward") and not linear.lacks_kernel
