"""Dtypes that the code of a kernel refuses, by the facts of the releases."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from mpsprobe_coverage.device import VirtualDevice
from mpsprobe_coverage.judging.chain import Chain
from mpsprobe_coverage.judging.judgement import Judgement
from mpsprobe_coverage.judging.switches import rules_of
from mpsprobe_coverage.kernels.kernel_facts import Refusal, facts_releases, load_facts
from mpsprobe_coverage.kernels.mps import load_table

FP8 = torch.float8_e4m3fn
Function = Callable[..., object]


def _judgements(release: str, function: Function, *inputs: torch.Tensor) -> dict[str, Judgement]:
    """Operator → the judgement of what ``function`` calls, by mechanism alone."""
    with VirtualDevice(Chain(load_table(release), lists="none")) as device:
        moved = [device.move(tensor) for tensor in inputs]
        with device.recording("forward"):
            function(*moved)
        return {record.operator: record.judgement for record in device.recorder.calls()}


def _counted(tensor: torch.Tensor) -> torch.Tensor:
    """What is handed over for the result is empty until the kernel gives it a size."""
    return torch.arange(4, dtype=tensor.dtype, device="mps")


@pytest.mark.parametrize(
    ("release", "operator", "function", "dtype", "reason"),
    [
        ("2.10.0", "aten::histc", torch.histc, torch.int32, '"histogram_mps" not implemented for'),
        ("2.10.0", "aten::histc", torch.histc, torch.float16, '"histogram_mps" not implemented for'),
        ("2.15.0", "aten::mm", lambda x: x.view(2, 2).mm(x.view(2, 2)), torch.bool, "no Metal kernel 'matmul_{}'"),
        ("2.4.1", "aten::arange.start_out", _counted, torch.bfloat16, '"arange_mps" not implemented for'),
        ("2.13.0", "aten::bmm", lambda x: x.view(1, 2, 2).bmm(x.view(1, 2, 2)), torch.bool, "no Metal kernel"),
    ],
)
def test_a_dtype_that_the_code_refuses(
    release: str, operator: str, function: Function, dtype: torch.dtype, reason: str
) -> None:
    judgement = _judgements(release, function, torch.ones(4, dtype=dtype))[operator]
    assert judgement.verdict == "unsupported"
    assert str(judgement.reason).startswith(reason)
    assert str(dtype).removeprefix("torch.") in str(judgement.reason)


@pytest.mark.parametrize(
    ("release", "operator", "function", "dtype"),
    [
        ("2.10.0", "aten::histc", torch.histc, torch.float32),
        ("2.13.0", "aten::histc", torch.histc, torch.int32),
        ("2.15.0", "aten::mm", lambda x: x.view(2, 2).mm(x.view(2, 2)), torch.int64),
    ],
)
def test_a_dtype_that_it_does_not_refuse(release: str, operator: str, function: Function, dtype: torch.dtype) -> None:
    assert _judgements(release, function, torch.ones(4, dtype=dtype))[operator].verdict == "native"


def test_a_tensor_without_elements_is_taken() -> None:
    """The kernel returns before it asks for the dtype."""
    judgements = _judgements("2.9.1", lambda x: x.cumsum(0), torch.ones(0, dtype=torch.complex64))
    assert judgements["aten::cumsum"].verdict == "native"


def test_an_index_of_another_dtype_is_refused_and_not_the_tensor() -> None:
    refusals = {refusal.argument: refusal.dtypes for refusal in load_facts("2.9.1").refusals["aten::index_select"]}
    assert "int16" in refusals["index"]
    assert "int64" not in refusals["index"]
    assert "float32" not in refusals.get("self", frozenset())


def test_eight_bit_floats_can_be_moved_but_not_converted_there() -> None:
    """The copy from the CPU is one of bytes; a cast on the device asks for a type that MPS does not have."""
    weight = torch.ones(4).to(FP8)
    assert "aten::copy_" not in _judgements("2.9.1", lambda x: x.view(2, 2), weight)
    for release in ("2.5.1", "2.9.1", "2.13.0", "2.14.1"):
        judgement = _judgements(release, lambda x: x.to(torch.bfloat16), weight)["aten::copy_"]
        assert judgement.verdict == "unsupported"
        assert judgement.accepted_since == "2.15.0"
    assert _judgements("2.15.0", lambda x: x.to(torch.bfloat16), weight)["aten::copy_"].verdict != "unsupported"


def test_the_first_release_that_takes_the_call() -> None:
    judgement = _judgements("2.9.1", lambda x: x.cumsum(0), torch.ones(4, dtype=torch.complex64))["aten::cumsum"]
    assert judgement.accepted_since is not None
    assert not rules_of("aten::cumsum", load_table(judgement.accepted_since))


def test_no_release_refuses_float32_but_to_what_takes_no_floats() -> None:
    """What is refused is named, so that a mistake of the reader shows."""
    refused = {
        operator
        for release in facts_releases()
        for operator, refusals in load_facts(release).refusals.items()
        for refusal in refusals
        if refusal.argument == "self" and "float32" in refusal.dtypes
    }
    assert refused <= {
        *("aten::_convert_weight_to_int4pack", "aten::_fft_c2c", "aten::_fft_c2c.out", "aten::_fft_c2r"),
        *("aten::_int_mm", "aten::_int_mm.out", "aten::_scaled_mm_v2", "aten::_scaled_mm_v2.out", "aten::bincount"),
        *("aten::conj_physical.out", "aten::view_as_real"),
    }


def test_a_refusal_is_read_back_as_it_was_written() -> None:
    refusal = Refusal("self", frozenset({"bool", "int8"}), "op(): bool: not yet")
    assert Refusal.parsed(str(refusal)) == refusal
