"""What comes out of calls: what the CPU gives, or what it would if it had code for the dtype, the size, the values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - as everyone calls it
from expectations import called
from torch.fx.immutable_collections import immutable_list

from mpsprobe_coverage.devices.virtual import VirtualDevice
from mpsprobe_coverage.devices.virtual.data_dependent import _on_the_cpu
from mpsprobe_coverage.devices.virtual.tensor import mapped, spec_of
from mpsprobe_coverage.knowledge.judging.judgement import EVERYWHERE
from mpsprobe_coverage.knowledge.kernels.mps import load_table

Run = Callable[[Any], Any]
SCALARS: list[Run] = [
    lambda x: torch.copysign(x, -3.14),
    lambda x: torch.copysign(x, torch.tensor(-3.14)),
    lambda x: torch.fmod(x, 2.5),
    lambda x: torch.remainder(x, 2),
    lambda x: torch.floor_divide(x, 2.0),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64])
def test_numbers_and_cpu_scalars_stand_beside_tensors(device: VirtualDevice, dtype: torch.dtype) -> None:
    values = torch.tensor([1, 2, 3]).to(dtype)
    for run in SCALARS:
        assert spec_of(run(values.to("mps"))) is spec_of(run(values))


WITHOUT_CPU_CODE: list[Run] = [
    lambda x: F.avg_pool1d(x[0], 2),
    lambda x: F.avg_pool2d(x, 2),
    lambda x: F.huber_loss(x, x),
    F.logsigmoid,
    lambda x: F.batch_norm(x, None, None, training=True),
    lambda x: F.pad(x, (1, 1, 1, 1), mode="replicate"),
    F.softplus,
]


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int32])
def test_a_dtype_that_only_mps_computes_has_a_result(device: VirtualDevice, dtype: torch.dtype) -> None:
    """Metal kernels exist for these; the CPU and meta kernels may refuse the dtype, with the shape of float32."""
    values = torch.ones(2, 3, 4, 4)
    for number, run in enumerate(WITHOUT_CPU_CODE):
        with device.recording(str(number)):
            made = run(values.to(dtype).to("mps"))
        assert (made.shape, made.stride(), made.dtype) == (run(values).shape, run(values).stride(), dtype)
        assert any(name.startswith("native:") for name in called(device.recorder, str(number)))


def test_an_output_argument_keeps_its_dtype_and_gets_the_size(device: VirtualDevice) -> None:
    out = torch.empty(0, dtype=torch.uint8, device="mps")
    torch._C._nn.avg_pool2d(torch.ones(1, 1, 4, 4, dtype=torch.uint8, device="mps"), 2, out=out)
    assert (tuple(out.shape), out.dtype) == ((1, 1, 2, 2), torch.uint8)


def test_unique_values_of_a_dtype_that_the_cpu_lacks() -> None:
    """Values, where a kernel has no code for the dtype, are those of float32, in the dtype of the call."""

    def only_float32(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.dtype is not torch.float32:
            raise NotImplementedError(f"\"made_up\" not implemented for '{tensor.dtype}'")
        return torch.unique(tensor)

    made = _on_the_cpu(only_float32, (torch.tensor([2.0, 1.0, 2.0], dtype=torch.float16),), {})
    assert (made.tolist(), made.dtype) == ([1.0, 2.0], torch.float16)


def statistics(x: torch.Tensor) -> None:
    """``_batch_norm_impl_index`` makes them in the dtype to accumulate in, float32 on MPS from 2.5 on."""
    F.batch_norm(x.new_empty(0, 3), None, None, training=True)


def renorm(x: torch.Tensor) -> None:
    """``renorm_backward`` accumulates in float64 on the CPU and on meta, in float32 on MPS from 2.2 on."""
    x = x[:, None].repeat(1, 4).requires_grad_()
    (grad,) = torch.autograd.grad(torch.renorm(x, 2, 0, 1.0).sum(), x)
    assert (tuple(grad.shape), grad.dtype) == ((3, 4), torch.float32)


def conjugated(x: torch.Tensor) -> None:
    """``conj_physical_`` asks for the kernel of the device, and on meta there is none either."""
    numbers = x.to(torch.complex64)
    assert numbers.conj_physical_() is numbers


BY_RELEASE: list[tuple[Run, dict[str, str]]] = [
    (statistics, {"2.4.1": "unsupported", "2.5.0": "native", "2.13.0": "native"}),
    (renorm, {"2.1.2": "unsupported", "2.2.0": "native", "2.13.0": "native"}),
    (conjugated, {"2.14.0": "unsupported", "2.14.1": "native"}),
    (torch.Tensor.conj_physical_, {"2.14.0": "native"}),
    (torch.bincount, {"1.13.1": "missing", "2.0.0": "unsupported"}),
    (lambda x: torch.bincount(x.int()), {"1.13.1": "missing", "2.0.0": "native"}),
]


def test_since_when_every_call_is_native() -> None:
    for run, by_release in BY_RELEASE:
        for release, expected in by_release.items():
            with VirtualDevice(load_table(release)) as device, device.recording("forward"):
                run(torch.ones(3, device="mps"))
            verdicts = {name.partition(":")[0] for name in called(device.recorder, "forward")}
            assert (verdicts - {"native"} or {"native"}) == {expected}, (run, release)


class _Pair(NamedTuple):
    first: int
    second: list[int]


def test_arguments_are_mapped_inside_every_container() -> None:
    given = (1, [2, (3,)], {"a": 4}, _Pair(5, [6]), immutable_list([7]))
    made = mapped(lambda value: value * 10, given)
    assert made == (10, [20, (30,)], {"a": 40}, _Pair(50, [60]), immutable_list([70]))
    assert [type(item) for item in made] == [type(item) for item in given[:1]] + [list, dict, _Pair, immutable_list]


def test_what_is_remembered_of_calls_holds_for_every_release() -> None:
    """Devices of several releases may share it: each keeps its own verdicts and refusals."""

    def seen(release: str, outcomes: dict[Any, Any]) -> set[tuple[str, str, str | None]]:
        with VirtualDevice(load_table(release), outcomes=outcomes) as device, device.recording("forward"):
            for dtype in (torch.bfloat16, torch.float16, torch.int32):
                x = torch.ones(1, 2, 4, 4, 4, device="mps").to(dtype)
                F.conv3d(x.float(), torch.ones(2, 2, 3, 3, 3, device="mps"))
                F.avg_pool2d(x[0], 2)
                for _ in range(2):
                    torch.cumsum(x, 0)
        return {(r.operator, r.judgement.verdict, r.judgement.reason) for r in device.recorder.calls()}

    shared: dict[Any, Any] = {}
    releases = ("2.2.2", "1.13.1", "2.13.0", "2.2.2")
    together = [seen(release, shared) for release in releases]
    assert together == [seen(release, {}) for release in releases]
    assert together[0] != together[2]


LARGE = 2**31 + 8
# The CPU has no code for these dtypes, or for so many elements; what is expected is what another dtype or size gives.
GO_ON: list[tuple[Run, tuple[int, ...], torch.dtype]] = [
    (lambda x: x.to(torch.complex64).unique(), (1,), torch.complex64),
    (torch.bincount, (2,), torch.int64),
    (lambda x: x.to(torch.complex64).cummax(0)[1], (3,), torch.int64),
    (lambda x: torch.histogram(x.to(torch.complex64), 4)[0], (4,), torch.complex64),
    (lambda x: x[:1].expand(LARGE).cumsum(0), (LARGE,), torch.float32),
    (lambda x: x[:2, None].expand(2, LARGE).cumsum(1), (2, LARGE), torch.float32),
    (lambda x: x[:1].expand(LARGE).diff(), (LARGE - 1,), torch.float32),
    (lambda x: (x[:1].expand(LARGE) > 0).nonzero(), (LARGE, 1), torch.int64),
    (lambda x: (x[:1, None].expand(5000, 6000) > 0).nonzero(), (30_000_000, 2), torch.int64),
    # The mask has fewer elements.
    (
        lambda x: x[:1, None].expand(3, LARGE).masked_select(torch.tensor([[True], [False], [True]], device="mps")),
        (2 * LARGE,),
        torch.float32,
    ),
    (lambda x: x[:1].expand(LARGE).sort()[1], (LARGE,), torch.int64),
]


def test_the_run_goes_on_with_the_size_that_the_call_would_have(device: VirtualDevice) -> None:
    with device.recording("forward"):
        for run, shape, dtype in GO_ON:
            made = run(torch.ones(3, device="mps"))
            assert (tuple(made.shape), made.dtype) == (shape, dtype)
    x = torch.ones(1, 1, device="mps").expand(LARGE, 3).transpose(0, 1)
    assert spec_of(x.cumsum(1)).stride == (LARGE, 1)  # as those of smaller tensors


def test_products_of_groups() -> None:
    with VirtualDevice(load_table("2.15.0")) as device, device.recording("forward"):
        offsets = torch.tensor([2, 8], dtype=torch.int32, device="mps")
        for a, b, shape in (
            ((4, 8), (2, 8, 2**24), (4, 2**24)),
            ((2, 4, 8), (8, 2**24), (4, 2**24)),
            ((4, 8), (8, 2**24), (2, 4, 2**24)),
            ((2, 4, 8), (2, 8, 2**24), (2, 4, 2**24)),
        ):
            made = torch._grouped_mm(torch.ones(a, device="mps"), torch.ones(b, device="mps"), offsets)
            assert (tuple(made.shape), made.dtype) == (shape, torch.float32)
    assert called(device.recorder, "forward")["native:aten::_grouped_mm"] == 4


REFUSED: dict[str, Run] = {
    "aten::mean.dim": lambda x: x.bool().mean(),
    "aten::sub.Tensor": lambda x: x.bool() - x.bool(),
    "aten::linalg_vector_norm": lambda x: torch.linalg.vector_norm(x.long()),
}


@pytest.mark.parametrize("operator", REFUSED)
def test_what_every_device_refuses_raises_and_is_a_finding(device: VirtualDevice, operator: str) -> None:
    x = torch.ones(3, device="mps")
    with pytest.raises(RuntimeError):
        REFUSED[operator](x.cpu())
    with device.recording("forward"):
        for _ in range(2):  # what is remembered of a call says the same
            with pytest.raises(RuntimeError) as raised:
                REFUSED[operator](x)
    (record,) = [r for r in device.recorder.calls() if r.judgement.verdict == "unsupported"]
    assert (record.operator, record.calls) == (operator, 2)
    assert (record.judgement.reason, record.judgement.evidence) == (str(raised.value), EVERYWHERE)


MISTAKES: list[Run] = [
    lambda x: x.bool() - torch.ones(4, device=x.device, dtype=torch.bool),
    lambda x: torch.bmm(x.half()[None, None], x[None, :, None]),
    lambda x: x.bool().cumsum(3),
    lambda x: x @ torch.ones(7, 7, device=x.device),
    lambda x: x[:1].expand(LARGE) + x[:1].expand(LARGE + 1),
    lambda x: F.linear(x, torch.ones(2, 4, device=x.device)),
    lambda x: x[5],
]


def test_a_mistake_of_the_program_is_an_error_and_no_finding(device: VirtualDevice) -> None:
    with device.recording("forward"):
        for run in MISTAKES:
            with pytest.raises(
                (RuntimeError, IndexError), match=r"broadcast|must match|scalar type|dim|shape|size|out of"
            ):
                run(torch.ones(3, device="mps"))
    assert {r.judgement.verdict for r in device.recorder.calls()} <= {"native"}
    with pytest.raises(RuntimeError, match="Negation"):  # which no Metal kernel does either
        -torch.ones(3, device="mps").bool()


def test_an_operator_that_writes_its_results_gives_the_tensors_that_it_wrote(device: VirtualDevice) -> None:
    """``linalg_lstsq`` allocates empty outputs and calls ``linalg_lstsq.out``, whose sizes depend on values."""
    matrix, right = device.move((torch.ones(2, 3, requires_grad=True), torch.ones(2, 4, requires_grad=True)))
    solution = torch.linalg.lstsq(matrix, right, driver="gelsd").solution
    assert tuple(solution.shape) == (3, 4)
    solution.sum().backward()
    assert matrix.grad is not None and tuple(matrix.grad.shape) == (2, 3)


def test_a_mask_selects_as_many_as_it_is_said_to_count(device: VirtualDevice) -> None:
    """As vision-language models leave out images that are padding, and split what they made of the others."""
    images = device.move(torch.ones(6, 3, 512, 512))
    real = (images == 0.0).sum(dim=(-1, -2, -3)) != images[0].numel()
    assert images[real].shape[0] == 6
    assert real.view(2, 3).sum(dim=1).tolist() == [3, 3]
    assert real.sum().item() == real.sum().cpu().item() == 6


@pytest.mark.parametrize("tokens", [400, 20_000])
def test_a_mask_of_tokens_stays_known_as_one_of_their_features(device: VirtualDevice, tokens: int) -> None:
    """As vision-language models count the features that images have in a text; also where those are many."""
    ids, features = device.move((torch.arange(tokens) % 4, torch.ones(1).expand(tokens, 3072)))
    mask = (ids == 1).unsqueeze(-1).expand_as(features)
    assert features[mask].numel() == features.masked_select(mask).numel() == tokens // 4 * 3072
    assert tuple(features[mask[:, 0]].shape) == (tokens // 4, 3072)


def test_what_is_repeated_is_as_long_as_the_sum_of_its_repeats(device: VirtualDevice) -> None:
    """As models of speech repeat each phoneme for its duration, in a tensor that has room for the longest sum."""
    phonemes = device.move(torch.ones(2, 5, 64, 2048))
    durations = phonemes.mean(dim=(2, 3)).round().long()
    repeated = torch.repeat_interleave(phonemes[0], durations[0], dim=0)
    assert int(durations.sum(dim=1).max()) == repeated.shape[0] == 5


@pytest.mark.parametrize("release", ["1.12.0", "1.13.1", "2.13.0"])
def test_what_a_release_registers_whole_depends_on_values_as_its_parts_do(release: str) -> None:
    """``repeat_interleave.self_Tensor``, as models read how long images are: up to 1.13 left to the CPU."""
    with VirtualDevice(load_table(release)) as device:
        lengths, images = device.move((torch.tensor([64, 16]), torch.tensor([1, 2])))
        repeated = lengths.repeat_interleave(images)
        assert (repeated.tolist(), tuple(repeated.shape)) == ([64, 16, 16], (3,))
