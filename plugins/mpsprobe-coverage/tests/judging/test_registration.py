"""What the registrations of a release say about an operator, and how they explain it."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from mpsprobe_coverage.judging.chain import Chain
from mpsprobe_coverage.judging.registration import registered
from mpsprobe_coverage.kernels.mps import load_table

_aten = torch.ops.aten


@pytest.mark.parametrize(
    ("func", "verdict", "release", "source", "says"),
    [
        (_aten.linear.default, "native", "2.13.0", "registration", "registered under MPS"),
        (_aten.copy_.default, "native", "2.13.0", "branch", "without a registration"),
        (_aten.linalg_svd.default, "fallback", "2.6.0", "registration", "CPU fallback"),
        (_aten._slow_conv2d_forward.default, "unsupported", "2.6.0", "registration", "only raises"),
        (_aten.linalg_eig.default, "missing", "2.13.0", "registration", "no kernel under MPS"),
        (_aten.native_group_norm.default, "native", "2.6.0", "registration", "Python"),
    ],
)
def test_registrations_explain_themselves(func: Any, verdict: str, release: str, source: str, says: str) -> None:
    judgement = registered(func, func._schema.name, load_table(release))
    assert (judgement.verdict, judgement.source) == (verdict, source)
    assert says in (judgement.evidence or "")


def test_an_operator_under_the_name_that_a_release_has_for_it() -> None:
    older, newer = (Chain(load_table(release)).judges_of(_aten.linear.default) for release in ("1.12.1", "2.13.0"))
    assert (older.operator, newer.operator) == ("aten::_mps_linear", "aten::linear")
    assert older.registered.verdict == newer.registered.verdict == "native"


@pytest.mark.parametrize(("release", "verdict"), [("2.6.0", "unsupported"), ("2.13.0", "native")])
def test_a_sparse_key_has_registrations_of_its_own(release: str, verdict: str) -> None:
    table = load_table(release)
    judgement = registered(_aten.mm.default, "aten::mm", table, "SparseMPS")
    assert (judgement.verdict, judgement.accepted_since) == (verdict, "2.10.0")
    assert "under SparseMPS" in (judgement.evidence or "")
    assert "under MPS" in (registered(_aten.mm.default, "aten::mm", table).evidence or "")


class _Nms:
    """``torchvision::nms``, as far as a judge looks at it: torchvision need not be installed."""

    is_view = False
    namespace = "torchvision"
    _overloadname = "default"
    _schema = torch._C.parse_schema("torchvision::nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


def test_a_table_of_another_library_covers_its_operators() -> None:
    libraries = {"torchvision": load_table("0.28.0", "torchvision")}
    judges = Chain(load_table("2.13.0"), libraries).judges_of(_Nms)
    assert (judges.registered.verdict, judges.registered.source) == ("native", "registration")
    assert [rule.judge for rule in judges.rules] == ["dtype", "devices", "metal"]
    unknown = Chain(load_table("2.13.0")).judges_of(_Nms).registered
    assert (unknown.verdict, unknown.source, unknown.evidence) == ("unknown", None, None)
