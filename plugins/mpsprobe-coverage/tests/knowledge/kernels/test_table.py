"""What is known of an operator in each release: by the dispatcher's rules, of its kernels, of what it is made of."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpsprobe.errors import TableError
from mpsprobe_coverage.commands.kernels import compare
from mpsprobe_coverage.knowledge.kernels import compositions, kernel_facts
from mpsprobe_coverage.knowledge.kernels.compositions import Differences, load_compositions
from mpsprobe_coverage.knowledge.kernels.dtypes import dtype_use
from mpsprobe_coverage.knowledge.kernels.format import unseal
from mpsprobe_coverage.knowledge.kernels.kernel_facts import METAL_TYPES, facts_releases, load_facts
from mpsprobe_coverage.knowledge.kernels.mps import MPS_FAMILY, load_table
from mpsprobe_coverage.knowledge.kernels.releases import data_folder, torch_releases
from mpsprobe_coverage.knowledge.kernels.table import COMPOSITE_LABELS, MPS, KernelTable, tensor_keys, verdict_of

OTHERS = ("defined", "MPS:fallback", "MPS:error", "MPS:python", "AutocastMPS")
LABELS = st.frozensets(st.sampled_from([*OTHERS, *COMPOSITE_LABELS, *tensor_keys()]))


@pytest.mark.parametrize(
    ("labels", "verdict", "key"),
    [
        ("defined MPS", "native", MPS),
        ("defined MPS CompositeImplicitAutograd", "native", MPS),  # comes before a composite kernel
        ("defined MPS MPS:fallback", "fallback", MPS),
        ("defined MPS MPS:fallback CompositeImplicitAutograd", "fallback", MPS),  # linalg_svd in 2.13
        ("defined MPS MPS:error", "unsupported", MPS),  # _slow_conv2d_forward
        ("defined MPS:python CompositeExplicitAutograd", "native", MPS),  # native_group_norm up to 2.12
        ("defined CompositeExplicitAutograd", "composite", MPS),
        ("defined CompositeExplicitAutogradNonFunctional", "composite", MPS),
        ("defined CompositeImplicitAutograd", "composite", MPS),
        ("defined", "missing", MPS),
        ("defined SparseMPS", "missing", MPS),
        ("MPS", "native", MPS),  # registered for a schema that another library defines
        ("", "unknown", MPS),
        ("defined SparseMPS", "native", "SparseMPS"),
        ("defined MPS", "missing", "SparseMPS"),
        ("defined MPS MPS:fallback", "missing", "SparseMPS"),  # the fallback is registered for dense tensors only
        ("defined CompositeExplicitAutograd", "composite", "SparseMPS"),
        ("defined CompositeExplicitAutogradNonFunctional", "missing", "SparseMPS"),  # does not serve sparse tensors
        ("CompositeExplicitAutogradNonFunctional", "composite", "SparseCsrMPS"),
    ],
)
def test_the_verdict_on_a_tensor(labels: str, verdict: str, key: str) -> None:
    assert verdict_of(labels.split(), key) == verdict
    assert key != MPS or verdict_of(labels.split()) == verdict  # dense where nothing else is said


@given(st.dictionaries(st.text("abc", min_size=1, max_size=3), LABELS.filter(bool), max_size=8))
def test_the_sets_are_views_of_the_labels(labels: dict[str, frozenset[str]]) -> None:
    table = KernelTable(MPS_FAMILY, "2.13.0", labels)
    assert table.operators == set(labels)
    assert table.native == {o for o, found in labels.items() if MPS in found} - table.fallback - table.error
    for key, operators in table.keys.items():
        assert key.endswith("MPS")
        assert operators == {o for o, found in labels.items() if key in found}
    for label in COMPOSITE_LABELS:
        assert table.with_label(label) == {o for o, found in labels.items() if label in found}
    assert all(table.verdict(o) == verdict_of(found) for o, found in labels.items())


@pytest.mark.parametrize(("release", "said"), [("2.2.2", True), ("2.3.0", False)])
def test_intel_macs_have_no_kernels_of_torchvision(release: str, said: bool) -> None:
    notes = MPS_FAMILY.notes(load_table(release), ["aten::abs", "torchvision::nms"])
    assert ["On an Intel Mac" in note and "torchvision::nms would" in note for note in notes] == [True] * said
    assert MPS_FAMILY.notes(load_table(release), ["aten::abs"]) == []


def _table(release: str, **labels: str) -> KernelTable:
    found = {f"aten::{name}": frozenset(joined.split()) for name, joined in labels.items()}
    return KernelTable(MPS_FAMILY, release, found, macos_minimum="13.0")


def test_every_way_to_change() -> None:
    here, nowhere, other = "defined MPS", "defined", "defined CompositeImplicitAutograd"
    fallback, sparse = "defined MPS MPS:fallback", "defined SparseMPS"
    old = _table("2.0.0", same=here, gains=nowhere, loses=here, otherwise=fallback, goes=here, sparse=nowhere)
    new = _table("2.1.0", same=here, gains=here, loses=nowhere, otherwise=other, comes=here, sparse=sparse)
    difference = compare(old, new)
    assert (difference["gained"], difference["lost"]) == (["aten::comes", "aten::gains"], ["aten::loses"])
    assert difference["changed"] == [{"operator": "aten::otherwise", "from": "fallback", "to": "composite"}]
    assert (difference["added"], difference["removed"]) == (["aten::comes"], ["aten::goes"])
    assert difference["by_key"] == {"SparseMPS": {"gained": ["aten::sparse"], "lost": []}}
    itself = compare(new, new)
    assert not any(itself[what] for what in ("gained", "lost", "changed", "added", "removed", "by_key"))


@settings(max_examples=30)
@given(st.sampled_from(torch_releases()), st.sampled_from(torch_releases()))
def test_the_difference_leads_from_one_to_the_other(first: str, second: str) -> None:
    old, new = load_table(first), load_table(second)
    difference = compare(old, new)
    added, removed, gained, lost = (set(difference[part]) for part in ("added", "removed", "gained", "lost"))
    assert (old.operators | added) - removed == new.operators
    before, after = ({o for o in table.operators if table.verdict(o) == "native"} for table in (old, new))
    assert (before | gained) - lost - removed == after


@pytest.mark.parametrize(
    ("name", "use", "since"),
    [
        ("float32", "computed", "1.12.0"),
        ("float64", "refused", None),
        ("complex128", "refused", None),
        ("bfloat16", "computed", "2.3.0"),
        ("complex64", "computed", "2.3.0"),
        ("uint16", "computed", "2.9.0"),
        ("float8_e4m3fn", "computed", "2.15.0"),
        ("float8_e5m2", "held", None),
        ("qint8", "refused", None),
    ],
)
def test_dtypes_that_the_newest_release_computes_with(name: str, use: str, since: str | None) -> None:
    found = dtype_use(name, "2.15.0")
    assert (found.use, found.since) == (use, since)
    assert bool(found.reason) == (use != "computed")


def test_before_a_dtype_was_taken() -> None:
    assert dtype_use("float8_e4m3fn", "2.14.1").use == "held"
    assert dtype_use("bfloat16", "2.2.2").use == "refused"  # "BFloat16 is not supported on MPS", in empty_mps
    assert dtype_use("bfloat16", "1.12.0").use == "held"


def test_every_release_has_files_of_the_wheel_of_its_table() -> None:
    assert facts_releases() == compositions.composition_releases() == torch_releases()
    assert load_facts("0.1.0").operators == {}
    for release in torch_releases():
        assert load_facts(release).sha256 == load_compositions(release).sha256 == load_table(release).sha256, release


WHOLE = {"base": None, "release": "2.13.0", "sha256": "", "kernels": {}, "operators": {}}
WHOLE |= {"refusals": {}, "graphs": {}}


@pytest.mark.parametrize(
    "document",
    [[], None, {}, {"kernels": []}, {"kernels": {"float": 1}}, {"operators": {"unary:exp": {"aten": "exp"}}}],
)
def test_a_file_of_another_form_is_an_error(document: Any) -> None:
    body = json.dumps({**WHOLE, **document} if document else document).encode()
    signed = f"{kernel_facts.FACTS.magic} {hashlib.sha256(body).hexdigest()}\n".encode() + body
    with pytest.raises(TableError, match="damaged"):
        kernel_facts.FACTS.decode(signed, "x")


def test_a_damaged_file_is_named() -> None:
    data = (data_folder() / "torch-2.13.0.compositions").read_bytes()
    assert unseal(compositions.COMPOSITIONS.magic, data, "x", dict)["base"] == "2.12.1"
    with pytest.raises(TableError, match=r"x\.compositions is damaged"):
        compositions.COMPOSITIONS.decode(data.replace(b"mul.Tensor", b"mul.tensor", 1), "x.compositions")


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
