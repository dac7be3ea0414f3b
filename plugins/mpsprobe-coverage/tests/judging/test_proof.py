"""Native verdicts of which nothing but the registration is known."""

from __future__ import annotations

import pytest
import torch

from mpsprobe.assembling import REGISTERED_ONLY
from mpsprobe_coverage.judging.judgement import Judgement, refused
from mpsprobe_coverage.judging.proof import with_proof
from mpsprobe_coverage.kernels.mps import load_table

REGISTERED = Judgement("native", None, "registration", "a kernel is registered under MPS", "1.12.0")


def _evidence(operator: str, *dtypes: torch.dtype, release: str = "2.13.0") -> str | None:
    return with_proof(operator, REGISTERED, frozenset(dtypes), load_table(release)).evidence


@pytest.mark.parametrize(
    ("operator", "dtypes"),
    [
        ("aten::add.Tensor", [torch.float32]),
        ("aten::add_.Tensor", [torch.float32]),  # no entry calls it; it is the kernel of add
        ("aten::linear_backward", [torch.float32]),  # from the tests of gradients
        ("aten::__ilshift__.Tensor", [torch.int32]),  # no entry calls it; the Metal kernels are there
        ("aten::_scaled_dot_product_attention_math_for_mps", [torch.bfloat16]),  # other tests than those of the lists
        ("aten::view", [torch.uint16]),  # computes nothing
        ("aten::empty.memory_format", [torch.uint16]),
    ],
)
def test_what_tests_or_metal_kernels_show_keeps_its_evidence(operator: str, dtypes: list[torch.dtype]) -> None:
    assert _evidence(operator, *dtypes) == REGISTERED.evidence


@pytest.mark.parametrize(
    ("operator", "dtypes"),
    [
        ("aten::linear_backward", [torch.bfloat16]),  # PyTorch tests gradients of float32 and float16
        ("aten::sort.stable", [torch.uint16, torch.int64]),
        ("aten::an_operator_of_that_release", [torch.float32]),
    ],
)
def test_what_nothing_shows_is_registered_only(operator: str, dtypes: list[torch.dtype]) -> None:
    assert _evidence(operator, *dtypes) == REGISTERED_ONLY


def test_a_release_without_a_list_asks_its_neighbour() -> None:
    assert _evidence("aten::add.Tensor", torch.float32, release="2.1.0") == REGISTERED.evidence
    assert _evidence("aten::sort.stable", torch.uint16, torch.int64, release="2.1.0") == REGISTERED_ONLY


def test_a_cast_is_proven_by_its_two_dtypes() -> None:
    by_branch = REGISTERED._replace(source="branch")
    table, casts = load_table("2.13.0"), ({torch.float32, torch.float16}, {torch.float32, torch.uint16})
    shown = [with_proof("aten::copy_", by_branch, frozenset(dtypes), table).evidence for dtypes in casts]
    assert shown == [REGISTERED.evidence, REGISTERED_ONLY]


def test_a_refusal_needs_no_proof() -> None:
    judgement = refused("why")
    assert with_proof("aten::sort.stable", judgement, frozenset({torch.uint16}), load_table("2.13.0")) == judgement
