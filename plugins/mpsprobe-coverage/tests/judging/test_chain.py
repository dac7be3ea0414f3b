"""Who is asked about a call, in which order, and who answers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from packaging.version import Version

from mpsprobe_coverage.calls.call import Call
from mpsprobe_coverage.calls.spec import specs_in
from mpsprobe_coverage.judging import chain as chain_module
from mpsprobe_coverage.judging.chain import Chain
from mpsprobe_coverage.judging.judgement import Judgement
from mpsprobe_coverage.kernels.mps import load_table

_aten = torch.ops.aten
VOLUME, HALF_VOLUME, DOUBLE_VOLUME = (
    torch.empty(1, 1, 2, 2, 2, dtype=dtype) for dtype in (torch.float32, torch.float16, torch.float64)
)


def _judgement(release: str, func: Any, *args: Any, macos: str | None = None, **options: Any) -> Judgement:
    """Of a call of ``func`` that returns what its first argument is like; no device records it."""
    chain = Chain(load_table(release), macos=None if macos is None else Version(macos), **options)
    return chain.judges_of(func).judge(Call(func, args, {}, specs_in(args), specs_in(args[:1])))


def _convolution(release: str, volume: torch.Tensor, **options: Any) -> Judgement:
    places = [0, 0, 0], [1, 1, 1], [1, 1, 1], 1
    return _judgement(release, _aten._mps_convolution.default, volume, volume, None, *places, **options)


def test_a_dtype_that_no_tensor_has_comes_before_everything() -> None:
    refused = _convolution("2.2.2", DOUBLE_VOLUME)
    assert (refused.source, refused.asked) == ("dtype", ("dtype",))


def test_what_c_plus_plus_refuses_comes_before_the_kernel() -> None:
    refused = _convolution("2.2.2", VOLUME)
    assert (refused.reason, refused.asked) == ("Conv3D is not supported on MPS", ("dtype", "route"))


def test_a_kernel_raises_before_a_list_is_asked() -> None:
    places = torch.ones(4, dtype=torch.int64)
    refused = _judgement("2.13.0", _aten.linear.default, places, places)
    assert (refused.source, refused.asked) == ("message", ("dtype", "devices", "guard"))


def test_an_older_macos_is_asked_last_of_those_about_kernels() -> None:
    refused = _convolution("2.6.0", VOLUME, macos="13.0")
    assert (refused.needs_macos, refused.asked) == ("13.2", ("dtype", "route", "devices", "macos"))
    native = _convolution("2.6.0", VOLUME, macos="13.2")
    assert (native.verdict, native.asked) == ("native", ("dtype", "route", "devices", "macos", "registration"))
    assert _convolution("2.6.0", VOLUME).asked == ("dtype", "route", "devices", "registration")


def test_without_a_kernel_the_fallback_is_asked() -> None:
    missing = _judgement("2.13.0", _aten.poisson.default, VOLUME)
    assert (missing.verdict, missing.asked) == ("missing", ("dtype", "fallback", "registration"))


def test_nothing_is_known_of_sparse_kernels_but_their_registrations() -> None:
    judges = Chain(load_table("2.13.0")).judges_of(_aten.mm.default, "SparseMPS")
    assert [rule.judge for rule in judges.rules] == ["dtype", "fallback"]


def test_without_a_table_only_the_dtype_counts() -> None:
    class Foreign:
        namespace, _overloadname = "lib", "default"
        _schema = torch._C.parse_schema("lib::op(Tensor x) -> Tensor")

    judges = Chain(load_table("2.13.0")).judges_of(Foreign)
    assert (judges.registered.verdict, [rule.judge for rule in judges.rules]) == ("unknown", ["dtype"])


@dataclass(frozen=True)
class _Answers:
    """A rule of ``judge`` that answers every call with a verdict of its own, or passes."""

    judge: str
    passes: bool
    dtypes = None

    def __call__(self, call: Call) -> Judgement | None:
        return None if self.passes else Judgement("unsupported", self.judge)


WRITTEN_DOWN = re.findall(r"^- ``(\w+)``:", chain_module.__doc__ or "", re.MULTILINE)
ABOUT_KERNELS = [name for name in WRITTEN_DOWN if name != "fallback"]  # that one is asked where there is no kernel


@pytest.mark.parametrize("answers", ABOUT_KERNELS)
def test_the_first_that_does_not_pass_answers_in_the_order_that_is_written_down(
    monkeypatch: pytest.MonkeyPatch, answers: str
) -> None:
    for name in ABOUT_KERNELS[:-1]:
        rule = _Answers(name, passes=ABOUT_KERNELS.index(name) < ABOUT_KERNELS.index(answers))
        monkeypatch.setattr(getattr(chain_module, name), "rules_of", lambda *_, rule=rule: (rule,))
    judgement = _judgement("2.13.0", _aten.relu.default, VOLUME)
    assert list(judgement.asked) == ABOUT_KERNELS[: ABOUT_KERNELS.index(answers) + 1]
    assert judgement.reason == (None if answers == "registration" else answers)
