"""An operator runs on the device wherever it runs on the CPU: no internal error, and the same shapes and dtypes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from torch.fx.immutable_collections import immutable_list

from mpsprobe_coverage.device import VirtualDevice
from mpsprobe_coverage.device.tensor import mapped, spec_of
from mpsprobe_coverage.kernels.mps import load_table

SCALARS: dict[str, Callable[[Any], Any]] = {
    "copysign": lambda x: torch.copysign(x, -3.14),
    "copysign with a tensor": lambda x: torch.copysign(x, torch.tensor(-3.14)),
    "fmod": lambda x: torch.fmod(x, 2.5),
    "remainder": lambda x: torch.remainder(x, 2),
    "floor_divide": lambda x: torch.floor_divide(x, 2.0),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64])
@pytest.mark.parametrize("name", SCALARS)
def test_numbers_and_cpu_scalars_stand_beside_tensors(device: VirtualDevice, name: str, dtype: torch.dtype) -> None:
    values = torch.tensor([1, 2, 3]).to(dtype)
    expected = SCALARS[name](values)
    with device.recording("forward"):
        made = SCALARS[name](values.to("mps"))
    assert spec_of(made) is spec_of(expected)


_F = torch.nn.functional
WITHOUT_CPU_CODE: dict[str, Callable[[Any], Any]] = {
    "avg_pool1d": lambda x: _F.avg_pool1d(x[0], 2),
    "avg_pool2d": lambda x: _F.avg_pool2d(x, 2),
    "huber_loss": lambda x: _F.huber_loss(x, x),
    "log_sigmoid": _F.logsigmoid,
    "batch_norm": lambda x: _F.batch_norm(x, None, None, training=True),
    "replication_pad2d": lambda x: _F.pad(x, (1, 1, 1, 1), mode="replicate"),
    "softplus": _F.softplus,
}


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int32])
@pytest.mark.parametrize("name", WITHOUT_CPU_CODE)
def test_a_dtype_that_only_mps_computes_has_a_result(device: VirtualDevice, name: str, dtype: torch.dtype) -> None:
    """Metal kernels exist for these; the CPU and meta kernels may refuse the dtype, with the shape of float32."""
    values = torch.ones(2, 3, 4, 4)
    run = WITHOUT_CPU_CODE[name]
    with device.recording("forward"):
        made = run(values.to(dtype).to("mps"))
    assert (tuple(made.shape), made.stride(), made.dtype) == (tuple(run(values).shape), run(values).stride(), dtype)
    assert "native" in {r.judgement.verdict for r in device.recorder.calls()}


REFUSED_EVERYWHERE: dict[str, Callable[[Any], Any]] = {
    "difference of truth values": lambda x: x - x,
    "negative truth value": lambda x: -x,
    "sizes that do not fit": lambda x: x.float() @ torch.ones(7, 7, device=x.device),
    "mean of truth values": lambda x: x.mean(),
}


@pytest.mark.parametrize("name", REFUSED_EVERYWHERE)
def test_what_every_device_refuses_is_refused(device: VirtualDevice, name: str) -> None:
    values = torch.ones(2, 3, dtype=torch.bool)
    for tensor in (values, values.to("mps")):
        with pytest.raises(RuntimeError):
            REFUSED_EVERYWHERE[name](tensor)


def test_an_output_argument_keeps_its_dtype_and_gets_the_size(device: VirtualDevice) -> None:
    out = torch.empty(0, dtype=torch.uint8, device="mps")
    torch._C._nn.avg_pool2d(torch.ones(1, 1, 4, 4, dtype=torch.uint8, device="mps"), 2, out=out)
    assert (tuple(out.shape), out.dtype) == ((1, 1, 2, 2), torch.uint8)


def test_unique_values_of_a_dtype_that_the_cpu_lacks(device: VirtualDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values, where a kernel has no code for the dtype, are those of float32, in the dtype of the call."""
    from mpsprobe_coverage.device.data_dependent import _on_the_cpu

    def only_float32(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.dtype is not torch.float32:
            raise NotImplementedError(f"\"made_up\" not implemented for '{tensor.dtype}'")
        return torch.unique(tensor)

    made = _on_the_cpu(only_float32, (torch.tensor([2.0, 1.0, 2.0], dtype=torch.float16),), {})
    assert (made.tolist(), made.dtype) == ([1.0, 2.0], torch.float16)


@pytest.mark.parametrize(("release", "float64"), [("2.4.1", True), ("2.5.0", False), ("2.13.0", False)])
def test_statistics_of_an_empty_batch(release: str, float64: bool) -> None:
    """``_batch_norm_impl_index`` makes them in the dtype to accumulate in, float32 on MPS from 2.5 on."""
    with VirtualDevice(load_table(release)) as device, device.recording("forward"):
        _F.batch_norm(torch.empty(0, 3, device="mps"), None, None, training=True)
    refused = [r.operator for r in device.recorder.calls() if r.judgement.verdict == "unsupported"]
    assert bool(refused) is float64


@pytest.mark.parametrize(("release", "float64"), [("2.1.2", True), ("2.2.0", False), ("2.13.0", False)])
def test_the_gradient_of_renorm(release: str, float64: bool) -> None:
    """``renorm_backward`` accumulates in float64 on the CPU and on meta, in float32 on MPS from 2.2 on."""
    with VirtualDevice(load_table(release)) as device:
        x = torch.rand(3, 4, device="mps", requires_grad=True)
        made = torch.renorm(x, 2, 0, 1.0)
        with device.recording("backward"):
            (grad,) = torch.autograd.grad(made.sum(), x)
    assert (tuple(grad.shape), grad.dtype) == ((3, 4), torch.float32)
    assert bool([r for r in device.recorder.calls() if r.judgement.verdict == "unsupported"]) is float64


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
                _F.conv3d(x.float(), torch.ones(2, 2, 3, 3, 3, device="mps"))
                _F.avg_pool2d(x[0], 2)
                for _ in range(2):
                    torch.cumsum(x, 0)
        return {(r.operator, r.judgement.verdict, r.judgement.reason) for r in device.recorder.calls()}

    shared: dict[Any, Any] = {}
    releases = ("2.2.2", "1.13.1", "2.13.0", "2.2.2")
    together = [seen(release, shared) for release in releases]
    assert together == [seen(release, {}) for release in releases]
    assert together[0] != together[2]
