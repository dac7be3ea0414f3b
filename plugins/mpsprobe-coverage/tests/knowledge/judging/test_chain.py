"""Who is asked about a call, in which order, and who answers; and what is refused before a kernel is asked."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from judged_calls import Nms, Program, judgements, made, not_native, wrong
from packaging.version import Version
from torch.nn import functional

from mpsprobe_coverage.devices.virtual import VirtualDevice
from mpsprobe_coverage.knowledge.calls.call import Call
from mpsprobe_coverage.knowledge.calls.spec import specs_in
from mpsprobe_coverage.knowledge.judging import chain as chain_module
from mpsprobe_coverage.knowledge.judging.chain import Chain
from mpsprobe_coverage.knowledge.judging.fallback import LOST, MISSING, without_kernel
from mpsprobe_coverage.knowledge.judging.judgement import Judgement
from mpsprobe_coverage.knowledge.judging.registration import registered
from mpsprobe_coverage.knowledge.kernels.mps import load_table
from mpsprobe_coverage.reporting.findings import findings

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
def test_the_first_that_does_not_pass_answers_in_that_order(monkeypatch: pytest.MonkeyPatch, answers: str) -> None:
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
def test_registrations(name: str, release: str, key: str, verdict: str, evidence: str, reason: str) -> None:
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
def test_what_the_variable_helps_with(release: str, operator: str, run: Program, verdict: str, reason: str) -> None:
    [one] = judgements(release, run, operator)
    assert one.verdict == verdict and reason in str(one.reason)


def test_a_collective_cannot_fall_back() -> None:
    for func in (torch.ops.c10d.allreduce_.default, torch.ops.c10d.barrier.default):
        assert without_kernel(func, func.name(), load_table("2.13.0"), "MPS")[0] == "unsupported"


ON_CPU = torch.tensor([1, 0, 2])
MAKES: list[Callable[[torch.dtype], Any]] = [
    lambda dtype: torch.ones(2, device="mps", dtype=dtype),
    lambda dtype: torch.ones(2, device="mps").to(dtype),
    lambda dtype: torch.ones(2, dtype=dtype).to("mps"),
    lambda dtype: torch.tensor([1.0], dtype=dtype, device="mps"),
    lambda dtype: torch.ones(2, device="mps").type(dtype),
]


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_64_bit_floating_point_is_unsupported_where_it_is_made(dtype: torch.dtype) -> None:
    for make in MAKES:
        with VirtualDevice(load_table("2.13.0")) as device, device.recording("forward"):
            make(dtype)
        refused = [record for record in device.recorder.calls() if record.judgement.verdict == "unsupported"]
        assert refused and all("64-bit floating point" in str(record.judgement.reason) for record in refused)
        assert {record.judgement.source for record in refused} == {"dtype"}
        assert {record.origin.line for record in refused} == {make.__code__.co_firstlineno}
    on_the_cpu = torch.ones(2, dtype=dtype) * 2  # is nobody's business
    assert not not_native([("2.13.0", lambda: on_the_cpu.real.float().to("mps"), "")])


@pytest.mark.parametrize(
    ("call", "refused"),
    [
        (lambda x: x + torch.ones(3), "the second tensor of add"),
        (lambda x: torch.ones(3) - x, "the first tensor of sub"),
        (lambda x: torch.ones(2, 3) @ x.view(3, 1), "the first tensor of mm"),
        (lambda x: torch.cat([x, torch.ones(3)]), "'tensors' of cat"),
        (lambda x: x.index_select(0, ON_CPU), "'index' of index_select"),
        (lambda x: x.gather(0, ON_CPU), "'index' of gather"),
        (lambda x: torch.where(torch.ones(3) > 0, x, 0.0), "'condition' of where"),
        (lambda x: torch.nn.functional.embedding(ON_CPU, x.view(3, 1)), "'index' of index_select"),
        (lambda x: torch.arange(3.0)[x.long()], "the tensor that is indexed (x of x[i])"),
        (lambda x: x.index_put_((ON_CPU,), torch.ones(3)), "the value (v of x[i] = v)"),
        (lambda x: torch.nn.functional.layer_norm(x, (3,), torch.ones(3)), "'weight' of native_layer_norm"),
        # A number on the CPU, indices and masks on the CPU, and copies are taken as they are.
        (lambda x: x + torch.tensor(1.0), None),
        (lambda x: torch.where(x > 0, x, torch.tensor(0.0)), None),
        (lambda x: x[ON_CPU], None),
        (lambda x: x.index_put_((ON_CPU,), torch.tensor(1.0)), None),
        (lambda x: x.masked_select(ON_CPU > 0), None),
        (lambda x: x.copy_(torch.ones(3)), None),
        (lambda x: torch.ones(3).copy_(x), None),
        (lambda x: torch.ones(3) + torch.ones(3), None),
    ],
)
def test_an_argument_on_the_cpu(call: Callable[[Any], Any], refused: str | None) -> None:
    found = judgements("2.13.0", lambda: call(torch.ones(3, device="mps")))
    reasons = [one.reason for one in found if one.source == "device"]
    assert reasons == ([] if refused is None else [f"{refused} is on the CPU, and other tensors are on MPS"])


def test_a_fallback_takes_tensors_from_wherever_they_are() -> None:
    """``cpu_fallback`` copies what is not on the CPU; without it, it is the missing kernel that raises."""
    [take] = judgements("2.13.0", lambda: torch.take(torch.ones(3, device="mps"), torch.tensor([0, 2])), "take")
    assert take.verdict == "missing"


class _KeepsTensors(torch.nn.Module):
    """Buffers move with a module; other tensors do not, unless they were made on the device."""

    def __init__(self, where: str | None) -> None:
        super().__init__()
        self.register_buffer("shift", torch.ones(3))
        self.scale = torch.randn(3, device=where) * 2

    def forward(self, tensor: Any) -> Any:
        return tensor * self.scale + self.shift


@pytest.mark.parametrize("where", [None, "cpu", "mps"])
def test_a_tensor_that_a_module_keeps_stays_where_it_was_made(where: str | None) -> None:
    device = VirtualDevice(load_table("2.13.0"))
    with device.construction():
        model = _KeepsTensors(where)
    with device:
        device.move(model)
        x = device.move(torch.ones(3))
        with torch.no_grad(), device.recording("forward"):
            model(x)
    found = {finding.operator: finding for finding in findings(device.recorder, device.table)}
    assert found["aten::add.Tensor"].verdict == "native"
    product = found["aten::mul.Tensor"]
    if where == "mps":
        assert product.verdict == "native"
        return
    line = _KeepsTensors.__init__.__code__.co_firstlineno + 3
    assert product.verdict == "unsupported" and product.reason is not None
    assert product.reason.endswith(f"test_chain.py:{line}")
    assert product.advice is not None and product.advice.startswith('Make the tensor with device="mps"')


def test_each_tensor_is_named_by_the_line_that_made_it(device: VirtualDevice) -> None:
    x = torch.ones(3, device="mps")
    with device.recording("forward"):
        for other in (torch.ones(3), torch.zeros(3)):
            x + other
        first, second = torch.ones(3), torch.ones(3)  # one line
        x + first, x + second
        third = torch.ones(3)
        x + third
    lines = {finding.reason for finding in findings(device.recorder, device.table) if finding.source == "device"}
    assert len(lines) == 3


def test_a_generator_of_the_cpu_is_refused_by_kernels_of_the_device() -> None:
    def draw() -> None:
        for generator in (torch.Generator(), torch.Generator("mps"), None):
            torch.ones(3, device="mps").normal_(generator=generator)
        torch.randn(3, generator=torch.Generator()).to("mps")  # drawn on the CPU

    refused = [one.reason for one in judgements("2.13.0", draw) if one.source == "device"]
    assert refused == ["the random generator is on the CPU, and what it draws is on MPS"]


def _refusals(device: VirtualDevice) -> list[str | None]:
    judged = [record.judgement for record in device.recorder.calls()]
    return [one.reason for one in judged if one.asked[-1] == "route"]


def test_indices_of_tensor_split_must_be_on_the_cpu(device: VirtualDevice) -> None:
    """The check in ``TensorShape.cpp`` raises for indices on MPS; sections and CPU indices are taken."""
    tensor, places = torch.arange(6.0, device="mps"), torch.tensor([1, 4])
    with device.recording("forward"):
        parts = [*tensor.tensor_split(places), *tensor.tensor_split(2), *torch.tensor_split(tensor, [2])]
    assert [tuple(part.shape) for part in parts] == [(1,), (3,), (2,), (3,), (3,), (2,), (4,)]
    assert not _refusals(device)
    with device.recording("forward"):
        parts = list(torch.tensor_split(tensor, places.to("mps")))
    assert [tuple(part.shape) for part in parts] == [(1,), (3,), (2,)]
    assert _refusals(device) == ["tensor_split expected tensor_indices_or_sections to be on cpu, but it's on mps:0"]


def test_unknown_indices_of_tensor_split_are_assumed(device: VirtualDevice) -> None:
    with device.recording("forward"):
        places = (torch.rand(100000, device="mps")[:2] * 3).long()
        parts = torch.rand(4, device="mps").tensor_split(places)
    assert len(parts) == 3 and len(_refusals(device)) == 1
    assert any(note.operator.startswith("aten::tensor_split") for note in device.recorder.assumptions())


def _convolve(function: Any, shape: tuple[int, ...], weight: tuple[int, ...], **rest: Any) -> Program:
    return lambda: function(made(*shape, dtype=torch.float16), made(*weight, dtype=torch.float16), **rest)


ALL, LONG, WIDE, LARGE = "2.3.1 2.13.0 2.15.0", 2**31, (1, 1, 2**15, 2**15), (1, 2, 2**15, 2**15 - 1)
CONV1D, CONV2D, CONV3D = functional.conv1d, functional.conv2d, functional.conv3d
BACK2D, BACK3D, FOLDED = functional.conv_transpose2d, functional.conv_transpose3d, (1, 1, 2**14, 2**14)
LARGE_VOLUME = _convolve(CONV3D, (1, 256, 5, 1088, 1920), (128, 256, 1, 1, 1))
FIT = [
    _convolve(CONV1D, (1, 1, LONG - 1), (1, 1, 1)),
    _convolve(CONV1D, (3, 1, LONG - 1), (1, 1, 1)),  # each entry of the batch by itself
    _convolve(CONV2D, WIDE, (2, 1, 2, 2)),
    _convolve(CONV2D, LARGE, (2, 1, 1, 1), groups=2),
    _convolve(CONV2D, LARGE, (2, 1, 1, 3), groups=2, dilation=3),
    _convolve(BACK2D, FOLDED, (1, 2, 1, 1), stride=2),
]
DO_NOT_FIT = [
    _convolve(CONV1D, (1, 1, LONG), (1, 1, 1), stride=2),
    _convolve(CONV2D, WIDE, (2, 1, 1, 1)),  # the result
    _convolve(CONV2D, LARGE, (2, 1, 1, 3), groups=2, padding=(0, 2)),
    _convolve(BACK2D, FOLDED, (1, 2, 2, 2), stride=2),
    _convolve(BACK3D, (*FOLDED, 2), (1, 2, 2, 2, 1), stride=(2, 2, 1)),
]


def test_convolutions_that_mps_is_not_chosen_for() -> None:
    """``ConvParams::use_mps`` says no to them; from 2.14.0 on it takes volumes that are not transposed."""
    assert not wrong("route", [(ALL, one, "convolution_overrideable", "2**31", None) for one in DO_NOT_FIT])
    plain = _convolve(CONV3D, (1, 1, 2, 2, 2), (1, 1, 2, 2, 2))
    assert not wrong("route", [("2.2.2", plain, "", "Conv3D is not supported on MPS", "2.3.0")])
    assert not wrong("route", [("2.3.1 2.13.0", LARGE_VOLUME, "", "2**31", "2.14.0")])
    assert not not_native([*((ALL, one, "") for one in FIT), ("2.15.0", LARGE_VOLUME, "")])


def test_the_gradient_of_a_convolution_that_needs_64_bits() -> None:
    with VirtualDevice(load_table("2.13.0")) as device:
        images = torch.empty(1, 1, 2**15, 2**15, device="mps", dtype=torch.float16)
        weight = torch.empty(2, 1, 1, 1, device="mps", dtype=torch.float16, requires_grad=True)
        with device.recording("backward"):
            functional.conv2d(images, weight).sum().backward()
    assert weight.grad is not None and weight.grad.shape == weight.shape
    found = {record.operator: record.judgement.reason for record in device.recorder.calls()}
    assert "2**31" in str(found["aten::convolution_backward_overrideable"])
