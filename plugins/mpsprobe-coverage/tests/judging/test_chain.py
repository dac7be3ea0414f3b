"""Who is asked about a call, in which order, and who answers; and what the last one, the registrations, say."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from judged_calls import Nms, Program, judgements, made
from packaging.version import Version

from mpsprobe_coverage.calls.call import Call
from mpsprobe_coverage.calls.spec import specs_in
from mpsprobe_coverage.judging import chain as chain_module
from mpsprobe_coverage.judging.chain import Chain
from mpsprobe_coverage.judging.fallback import LOST, MISSING, without_kernel
from mpsprobe_coverage.judging.judgement import Judgement
from mpsprobe_coverage.judging.registration import registered
from mpsprobe_coverage.kernels.mps import load_table

_aten = torch.ops.aten
VOLUME, DOUBLE_VOLUME = (torch.empty(1, 1, 2, 2, 2, dtype=dtype) for dtype in (torch.float32, torch.float64))


def _judgement(release: str, func: Any, *args: Any, macos: str | None = None) -> Judgement:
    """Of a call of ``func`` that returns what its first argument is like; no device records it."""
    chain = Chain(load_table(release), macos=None if macos is None else Version(macos))
    return chain.judges_of(func).judge(Call(func, args, {}, specs_in(args), specs_in(args[:1])))


def _convolution(release: str, volume: torch.Tensor, macos: str | None = None) -> Judgement:
    places = [0, 0, 0], [1, 1, 1], [1, 1, 1], 1
    return _judgement(release, _aten._mps_convolution.default, volume, volume, None, *places, macos=macos)


WHOLE = torch.ones(4, dtype=torch.int64)


@pytest.mark.parametrize(
    ("judge", "asked", "verdict"),
    [
        # A dtype that no tensor has comes before everything, then what C++ refuses, and a kernel before a list.
        (lambda: _convolution("2.2.2", DOUBLE_VOLUME), "dtype", "unsupported"),
        (lambda: _convolution("2.2.2", VOLUME), "dtype route", "unsupported"),
        (lambda: _judgement("2.13.0", _aten.linear.default, WHOLE, WHOLE), "dtype devices guard", "unsupported"),
        # An older macOS is asked last of those about kernels.
        (lambda: _convolution("2.6.0", VOLUME, "13.0"), "dtype route devices macos", "unsupported"),
        (lambda: _convolution("2.6.0", VOLUME, "13.2"), "dtype route devices macos registration", "native"),
        (lambda: _convolution("2.6.0", VOLUME), "dtype route devices registration", "native"),
        # Without a kernel the fallback is asked.
        (lambda: _judgement("2.13.0", _aten.poisson.default, VOLUME), "dtype fallback registration", "missing"),
    ],
)
def test_who_answers(judge: Callable[[], Judgement], asked: str, verdict: str) -> None:
    judgement = judge()
    assert (" ".join(judgement.asked), judgement.verdict) == (asked, verdict)
    assert judgement.needs_macos == ("13.2" if asked.endswith("macos") else None)


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


def test_whose_rules_are_asked() -> None:
    """Nothing is known of sparse kernels but their registrations; without a table only the dtype counts."""
    torch_alone = Chain(load_table("2.13.0"))
    with_library = Chain(load_table("2.13.0"), {"torchvision": load_table("0.28.0", "torchvision")})
    sparse, unknown = torch_alone.judges_of(_aten.mm.default, "SparseMPS"), torch_alone.judges_of(Nms)
    covered = with_library.judges_of(Nms)
    assert [rule.judge for rule in sparse.rules] == ["dtype", "fallback"]
    assert [rule.judge for rule in unknown.rules] == ["dtype"]
    assert [rule.judge for rule in covered.rules] == ["dtype", "devices", "metal"]
    assert (covered.registered.verdict, covered.registered.source) == ("native", "registration")
    assert unknown.registered[:1] + unknown.registered[2:4] == ("unknown", None, None)


@pytest.mark.parametrize(
    ("name", "release", "key", "verdict", "evidence", "reason"),
    [
        ("linear", "2.13.0", "MPS", "native", "registered under MPS", "None"),
        ("copy_", "2.13.0", "MPS", "native", "without a registration", "None"),
        ("linalg_svd", "2.6.0", "MPS", "fallback", "CPU fallback", ""),
        ("_slow_conv2d_forward", "2.6.0", "MPS", "unsupported", "only raises", ""),
        ("linalg_eig", "2.13.0", "MPS", "missing", "no kernel under MPS", ""),
        ("native_group_norm", "2.6.0", "MPS", "native", "Python", "None"),
        # A sparse key has registrations of its own, and no fallback.
        ("mm", "2.6.0", "SparseMPS", "unsupported", "under SparseMPS", "sparse tensors"),
        ("mm", "2.13.0", "SparseMPS", "native", "under SparseMPS", "None"),
        ("sparse_sampled_addmm", "2.13.0", "SparseCsrMPS", "unsupported", "", "sparse tensors"),
        ("mm", "2.13.0", "MPS", "native", "under MPS", "None"),
        # Without a CPU kernel nothing helps.
        ("_fused_dropout", "2.13.0", "MPS", "unsupported", "", "no CPU kernel"),
        ("_cudnn_rnn", "2.13.0", "MPS", "unsupported", "", "no CPU kernel"),
        ("_flash_attention_forward", "2.13.0", "MPS", "unsupported", "", "no CPU kernel"),
    ],
)
def test_registrations_explain_themselves(
    name: str, release: str, key: str, verdict: str, evidence: str, reason: str
) -> None:
    func = getattr(_aten, name).default
    one = registered(func, f"aten::{name}", load_table(release), None if key == "MPS" else key)
    assert (one.verdict, one.source) == (verdict, "branch" if name == "copy_" else "registration")
    assert evidence in str(one.evidence) and reason in str(one.reason)
    assert (name, key) != ("mm", "SparseMPS") or one.accepted_since == "2.10.0"


def test_an_operator_under_the_name_that_a_release_has_for_it() -> None:
    older, newer = (Chain(load_table(release)).judges_of(_aten.linear.default) for release in ("1.12.1", "2.13.0"))
    assert (older.operator, newer.operator) == ("aten::_mps_linear", "aten::linear")
    assert older.registered.verdict == newer.registered.verdict == "native"


def _poisson(*generator: str) -> Program:
    return lambda: torch.poisson(made(3), *map(torch.Generator, generator))


RAISES, WRITES = (one.format(label="MPS", variable="PYTORCH_ENABLE_MPS_FALLBACK=1") for one in (MISSING, LOST))


@pytest.mark.parametrize(
    ("release", "operator", "run", "verdict", "reason"),
    [
        ("1.13.1", "unfold", lambda: made(6).unfold(0, 2, 1), "unsupported", "view operator"),
        ("2.3.1", "tril_indices", lambda: torch.tril_indices(3, 3, device="mps"), "unsupported", "in torch 2.3.1"),
        ("2.4.0", "tril_indices", lambda: torch.tril_indices(3, 3, device="mps"), "missing", RAISES),
        ("2.13.0", "poisson", _poisson(), "missing", RAISES),
        ("2.13.0", "poisson", _poisson("mps"), "unsupported", "refuses a generator"),
        ("2.14.0", "poisson", _poisson("mps"), "native", ""),
        ("2.0.1", "_foreach_add_.List", lambda: torch._foreach_add_([made(3)], [made(3)]), "missing", WRITES),
        ("2.13.0", "geqrf", lambda: torch.geqrf(made(2, 2)), "missing", RAISES),
    ],
)
def test_what_the_variable_helps_with_is_missing(
    release: str, operator: str, run: Program, verdict: str, reason: str
) -> None:
    [one] = judgements(release, run, operator)
    assert one.verdict == verdict and reason in str(one.reason)


def test_a_collective_cannot_fall_back() -> None:
    for func in (torch.ops.c10d.allreduce_.default, torch.ops.c10d.barrier.default):
        assert without_kernel(func, func.name(), load_table("2.13.0"), "MPS")[0] == "unsupported"
