"""The dispatcher's rules, one operator at a time, and what changed between two tables."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpsprobe_coverage.kernels.difference import Change, compare
from mpsprobe_coverage.kernels.dtypes import dtype_use
from mpsprobe_coverage.kernels.mps import MPS_FAMILY, load_table
from mpsprobe_coverage.kernels.releases import torch_releases
from mpsprobe_coverage.kernels.table import COMPOSITE_LABELS, MPS, KernelTable, tensor_keys, verdict_of

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
    assert difference.gained == (Change("aten::comes", "unknown", "native"), Change("aten::gains", "missing", "native"))
    assert difference.lost == (Change("aten::loses", "native", "missing"),)
    assert difference.changed == (Change("aten::otherwise", "fallback", "composite"),)
    assert (difference.added, difference.removed) == (("aten::comes",), ("aten::goes",))
    assert difference.keys == {"SparseMPS": (("aten::sparse",), ())}
    assert difference.as_dict()["by_key"] == {"SparseMPS": {"gained": ["aten::sparse"], "lost": []}}
    itself = compare(new, new).as_dict()
    assert not any(itself[what] for what in ("gained", "lost", "changed", "added", "removed", "by_key"))


@settings(max_examples=30)
@given(st.sampled_from(torch_releases()), st.sampled_from(torch_releases()))
def test_the_difference_leads_from_one_to_the_other(first: str, second: str) -> None:
    old, new = load_table(first), load_table(second)
    difference = compare(old, new)
    assert (old.operators | set(difference.added)) - set(difference.removed) == new.operators
    gained, lost = ({change.operator for change in part} for part in (difference.gained, difference.lost))
    before, after = ({o for o in table.operators if table.verdict(o) == "native"} for table in (old, new))
    assert (before | gained) - lost - set(difference.removed) == after


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
