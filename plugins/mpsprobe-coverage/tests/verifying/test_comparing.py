"""What counts as wrong: beyond tolerance, beyond the CPU's noise, beyond what rounding inputs changes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from mpsprobe_coverage.verifying.comparing import EXACT, all_within, compared, distance, smallest, tolerance_of
from mpsprobe_coverage.verifying.copying import Copies, place, to_device
from mpsprobe_coverage.verifying.drawing import Drawing, off_distribution
from mpsprobe_coverage.verifying.operators import _computed, _first_wrong, _wide

ATEN = torch.ops.aten
FLOAT32 = tolerance_of("aten::exp", torch.float32)
EXACTLY = torch.linspace(1, 2, 50, dtype=torch.float64)


def wrong(got: torch.Tensor, cpu: torch.Tensor | None = None, exact: torch.Tensor = EXACTLY) -> int:
    found = compared(got, exact, lambda: cpu, FLOAT32 if got.is_floating_point() else EXACT)
    return found.elements if found is not None else 0


def test_an_element_is_wrong_beyond_tolerance_where_the_cpu_is_not() -> None:
    got = EXACTLY.float()
    assert wrong(got) == 0
    got[3] *= 1.001
    assert wrong(got) == wrong(got, EXACTLY.float()) == 1
    assert wrong(got, got.clone()) == 0  # the CPU has it too
    noisy = EXACTLY.float() * (1 + 3e-4)
    assert wrong(got, noisy) == 0 and wrong(got * 2, EXACTLY.float()) == 50


def test_what_rounding_changes_is_not_wrong() -> None:
    got = EXACTLY.float()
    got[3] *= 1.001
    for off, right in ((torch.tensor(4e-3), True), (torch.tensor(4e-6), False), (EXACTLY * math.nan, False)):
        found = compared(got, EXACTLY, lambda: EXACTLY.float(), FLOAT32, lambda off=off: [off])
        assert (found is None) is right


def judged(func: Any, got: torch.Tensor, *given: Any) -> bool:
    """Whether ``got`` is right for ``func`` of ``given``, where the CPU has no error."""
    before = (given, {})
    exact = _computed(func, before, _wide)
    return _first_wrong(func, [got], exact, lambda: [exact[0].float()], before) is None


SUMS: dict[str, tuple[Any, Callable[[torch.Tensor], tuple[Any, ...]]]] = {
    "sum": (ATEN.sum.default, lambda x: (x,)),
    "mean": (ATEN.mean.default, lambda x: (x,)),
    "mm": (ATEN.mm.default, lambda x: (x[None], torch.ones(x.numel(), 1))),
    "addmm": (ATEN.addmm.default, lambda x: (torch.zeros(1), x[None], torch.ones(x.numel(), 1))),
    "bmm": (ATEN.bmm.default, lambda x: (x[None, None], torch.ones(1, x.numel(), 1))),
    "convolution": (
        ATEN.convolution.default,
        lambda x: (x[None, None], torch.ones(1, 1, x.numel()), None, [1], [0], [1], False, [0], 1),
    ),
    "index_add": (
        ATEN.index_add.default,
        lambda x: (torch.zeros(1), 0, torch.zeros(x.numel(), dtype=torch.int64), x),
    ),
    "embedding": (
        ATEN.embedding_dense_backward.default,
        lambda x: (x[:, None], torch.zeros(x.numel(), dtype=torch.int64), 1, -1, False),
    ),
}


@pytest.mark.parametrize("name", SUMS)
def test_a_sum_that_cancels_is_judged_by_what_was_summed(name: str) -> None:
    func, given = SUMS[name]
    half = torch.rand(1024) + 1.0
    inputs = given(torch.cat([half, -half, torch.tensor([1e-5])]))  # partial sums of 1,500, and 1e-5 is right
    right = func(*[one.double() if torch.is_tensor(one) and one.is_floating_point() else one for one in inputs])
    scale = 1 if name != "mean" else 1 / 2049
    assert judged(func, (right + 5e-4 * scale).float(), *inputs)  # as near as float32 is to the partial sums
    assert not judged(func, (right + 5e-2 * scale).float(), *inputs)


def test_what_sums_nothing_is_judged_by_its_result() -> None:
    x = torch.full((16,), -8.0)
    assert judged(ATEN.exp.default, x.exp(), x) and not judged(ATEN.exp.default, x.exp() * 1.001, x)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_what_is_off_by_the_smallest_number_is_right(dtype: torch.dtype) -> None:
    least = smallest(dtype)
    exact = torch.full((8,), 0.5 * least, dtype=torch.float64)
    allowed = tolerance_of("aten::native_layer_norm_backward", dtype)
    for got in (torch.zeros(8, dtype=dtype), torch.full((8,), least, dtype=dtype)):
        assert compared(got, exact, lambda: None, allowed) is None
    assert compared(torch.full((8,), 4 * least, dtype=dtype), exact, lambda: None, allowed) is not None
    assert smallest(torch.float16) == 2**-24


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_numbers_that_are_not_finite(value: float) -> None:
    got, exact = EXACTLY.float(), EXACTLY.clone()
    got[0] = value
    found = compared(got, EXACTLY, lambda: EXACTLY.float(), FLOAT32)
    assert found is not None and found.excess == math.inf and found.at == (0,)
    exact[0] = value
    assert wrong(got, got, exact) == 0  # as it should be
    assert wrong(EXACTLY.float(), got, exact) == 1  # one that was lost
    beyond = torch.full((4,), 1e6, dtype=torch.float64)
    assert compared(beyond.half(), beyond, lambda: None, tolerance_of("aten::exp", torch.float16)) is None


def test_whole_numbers_are_exact_and_sizes_too() -> None:
    ones = torch.ones(4, dtype=torch.int64)
    assert wrong(ones, None, ones) == 0 and wrong(ones + 1, None, ones) == 4
    found = compared(torch.ones(2), torch.ones(3).double(), lambda: None, FLOAT32)
    assert found is not None and "shape" in found.why
    assert all_within(torch.empty(0, 4), torch.empty(0, 4).double(), FLOAT32)  # an expert without tokens


def test_tolerances_are_those_of_the_tests_of_pytorch() -> None:
    assert tolerance_of("aten::exp", torch.float32)[:2] == (1.3e-6, 1e-5)
    assert tolerance_of("aten::mm", torch.float16)[:2] == (5e-2, 5e-2)
    assert "FP32_LOW" in tolerance_of("aten::convolution_backward", torch.float32).source
    assert tolerance_of("aten::add.Tensor", torch.int64) is EXACT


def test_memory_is_copied_as_it_lies() -> None:
    for one in (torch.randn(3, 4).t(), torch.randn(2, 3, 4, 4).contiguous(memory_format=torch.channels_last)[:, :2]):
        copy = to_device(one, "cpu")
        assert copy.stride() == one.stride() and torch.equal(copy, one) and copy.data_ptr() != one.data_ptr()


def test_what_the_cpu_computed_stands_for_memory_until_that_is_written() -> None:
    copies, x = Copies(), torch.randn(3, 4)
    same = x + 1e-7
    copies.keep(x, same)
    assert torch.equal(copies.of(x.t()), same.t()) and torch.equal(copies.of(x, fresh=True), x)
    for other in (same.double(), same.t().contiguous().t()):  # rounded, or lying in another way
        copies.keep(x, other)
        assert torch.equal(copies.of(x), x)
    copies.keep(x, same)
    x.add_(1)
    assert torch.equal(copies.of(x), x)
    copies.keep(x, same)
    x.data.zero_()  # nobody counts this
    copies.drop(place(x))
    assert not copies.of(x).any()


def test_every_run_draws_the_same_numbers() -> None:
    x = torch.ones(4, 100)
    with Drawing(torch.float32):
        first = torch.nn.functional.dropout(x, 0.3), torch.rand(5)
    with Drawing(torch.float32, wide=True):
        second = torch.nn.functional.dropout(x.t().double(), 0.3).t(), torch.rand(5)
        fused = torch.native_dropout(x.double(), 0.3, True)[0]
    assert torch.equal(first[1].double(), second[1]) and second[1].dtype is torch.float64
    with Drawing(torch.float32):
        assert torch.equal(torch.native_dropout(x, 0.3, True)[0].double(), first[0].double())
    assert fused.shape == x.shape
    assert off_distribution(torch.rand(5000), torch.rand(5000)) is None
    assert off_distribution(torch.rand(5000) ** 2, torch.rand(5000)) is not None


def test_distance_counts_what_is_not_finite() -> None:
    got = EXACTLY.clone()
    got[0] = math.nan
    found = distance(got, EXACTLY)
    assert found is not None and found.nonfinite == 1 and found.relative == 0.0
    assert distance(torch.ones(2), EXACTLY) is None
