"""The dispatcher's rules, one operator at a time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpsprobe_coverage.kernels.mps import MPS_FAMILY, load_table
from mpsprobe_coverage.kernels.table import (
    COMPOSITE_LABELS,
    DEFINED,
    MPS,
    MPS_ERROR,
    MPS_FALLBACK,
    MPS_PYTHON,
    KernelTable,
    tensor_keys,
    verdict_of,
)

LABELS = st.frozensets(
    st.sampled_from([DEFINED, MPS_FALLBACK, MPS_ERROR, MPS_PYTHON, *COMPOSITE_LABELS, *tensor_keys(), "AutocastMPS"])
)
VERDICTS = {"native", "composite", "fallback", "missing", "unsupported", "unknown"}


@pytest.mark.parametrize(
    ("labels", "verdict"),
    [
        ("defined MPS", "native"),
        ("defined MPS CompositeImplicitAutograd", "native"),  # a kernel of the backend comes before a composite one
        ("defined MPS MPS:fallback", "fallback"),
        ("defined MPS MPS:fallback CompositeImplicitAutograd", "fallback"),  # linalg_svd in 2.13
        ("defined MPS MPS:error", "unsupported"),  # _slow_conv2d_forward
        ("defined MPS:python CompositeExplicitAutograd", "native"),  # native_group_norm up to 2.12
        ("defined CompositeExplicitAutograd", "composite"),
        ("defined CompositeExplicitAutogradNonFunctional", "composite"),
        ("defined CompositeImplicitAutograd", "composite"),
        ("defined", "missing"),
        ("defined SparseMPS", "missing"),
        ("MPS", "native"),  # registered for a schema that another library defines
        ("", "unknown"),
    ],
)
def test_the_verdict_on_a_dense_tensor(labels: str, verdict: str) -> None:
    assert verdict_of(labels.split()) == verdict


@pytest.mark.parametrize(
    ("labels", "verdict"),
    [
        ("defined SparseMPS", "native"),
        ("defined MPS", "missing"),
        ("defined MPS MPS:fallback", "missing"),  # the fallback is registered for dense tensors only
        ("defined CompositeExplicitAutograd", "composite"),
        ("defined CompositeExplicitAutogradNonFunctional", "missing"),  # does not serve sparse tensors
    ],
)
def test_the_verdict_on_a_sparse_tensor(labels: str, verdict: str) -> None:
    assert verdict_of(labels.split(), "SparseMPS") == verdict


def test_compressed_sparse_tensors_have_the_non_functional_kernels() -> None:
    assert verdict_of(["CompositeExplicitAutogradNonFunctional"], "SparseCsrMPS") == "composite"


@given(LABELS, st.sampled_from(tensor_keys()))
def test_every_operator_has_one_verdict(labels: frozenset[str], key: str) -> None:
    verdict = verdict_of(labels, key)
    assert verdict in VERDICTS
    assert (verdict == "unknown") == (not labels)
    if not labels & {*COMPOSITE_LABELS, key, "MPS:fallback", "MPS:error", "MPS:python"} and labels:
        assert verdict == "missing"


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
