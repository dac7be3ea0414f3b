"""What calls cost, and how long they were predicted to take."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from mpsprobe_coverage.knowledge.calls.spec import interned
from mpsprobe_coverage.knowledge.chips.store import all_chips
from mpsprobe_coverage.knowledge.times.costs import HOST, cost
from mpsprobe_coverage.knowledge.times.model import Call, Estimate, estimate, numbers

CHIPS = all_chips()
RELEASE = "2.13.0"


def spec(*shape: int, dtype: torch.dtype = torch.float32) -> Any:
    return interned(shape, tuple(math.prod(shape[at + 1 :]) for at in range(len(shape))), dtype)


def of(chip: str, *calls: Call, cores: int | None = None) -> Estimate:
    found = estimate(calls, CHIPS[chip], cores, RELEASE)
    assert found is not None
    return found


def product(size: int, dtype: torch.dtype = torch.float32) -> Call:
    x = spec(size, size, dtype=dtype)
    return Call(cost("aten::mm", (x, x), (x,)), 1)


def test_the_arithmetic_of_products_convolutions_and_attention() -> None:
    linear = cost("aten::linear", (spec(8, 128, 768), spec(3072, 768), spec(3072)), (spec(8, 128, 3072),))
    assert (linear.kind, linear.flops) == ("matmul", 2 * 1024 * 768 * 3072)
    x, weight, out = spec(8, 64, 56, 56), spec(256, 64, 1, 1), spec(8, 256, 56, 56)
    forward = cost("aten::_mps_convolution", (x, weight), (out,))
    assert forward.flops == 2 * out.numel * 64
    backward = cost("aten::mps_convolution_backward", (x, out, weight), (x, weight))
    assert (backward.kind, backward.flops) == ("convolution_backward_1x1", 2 * forward.flops)
    one_gradient = cost("aten::mps_convolution_backward", (x, out, weight), (weight,))
    assert one_gradient.flops == forward.flops
    few = cost("aten::_mps_convolution", (spec(1, 64, 8, 8), spec(16, 64, 1, 1)), (spec(1, 16, 8, 8),))
    assert few.flops == 2 * (2 * 16 * 8 * 8 * 64), "a kernel computes 32 channels at once"
    q = spec(2, 12, 128, 64)
    attention = cost("aten::_scaled_dot_product_attention_math_for_mps", (q, q, q), (q,))
    assert attention.flops == 4 * 2 * 12 * 128 * 128 * 64


def test_bytes_are_those_that_move() -> None:
    x = spec(1024, 1024)
    assert cost("aten::add.Tensor", (x, x), (x,)).nbytes == 3 * x.nbytes
    expanded = interned((1024, 1024), (0, 1), torch.float32)
    assert cost("aten::add.Tensor", (x, expanded), (x,)).nbytes == 2 * x.nbytes + 4096
    assert cost("aten::view", (x,), (x,)).kind == HOST
    table, rows = spec(30522, 768), spec(16, 768)
    assert cost("aten::index_select", (table, spec(16, dtype=torch.int64)), (rows,)).nbytes < table.nbytes / 100


def test_batch_norm_with_statistics_of_the_batch_is_as_slow_on_a_large_chip() -> None:
    x, c = spec(32, 64, 112, 112), spec(64)
    training = cost("aten::native_batch_norm", (x, c, c), (x, c, c))
    evaluated = cost("aten::native_batch_norm", (x, c, c), (x, spec(0), spec(0)))
    assert (training.kind, evaluated.kind) == ("batch_norm", "normalisation")
    for one, grows in ((training, False), (evaluated, True)):
        small, large = (
            of(chip, Call(one, 50), cores=cores).step_ms.likely for chip, cores in (("m3", 10), ("m3-max", 40))
        )
        assert (small > 2 * large) is grows


def test_what_a_step_is_bound_by() -> None:
    assert of("m1", product(4096)).bound_by == "arithmetic"
    large = spec(4096, 8192)
    assert of("m1", Call(cost("aten::add.Tensor", (large, large), (large,)), 3)).bound_by == "bandwidth"
    small = spec(8, 8)
    assert of("m4-max", Call(cost("aten::relu", (small,), (small,)), 500)).bound_by == "launches"
    assert of("m1", Call(cost("aten::linalg_qr", (large,), (large,)), 5, on_cpu=True)).bound_by == "cpu"


def test_more_cores_are_faster_and_without_them_the_range_covers_all() -> None:
    small, large = of("m1-max", product(4096), cores=24), of("m1-max", product(4096), cores=32)
    assert large.step_ms.likely < small.step_ms.likely
    both = of("m1-max", product(4096))
    assert (both.step_ms.low, both.step_ms.high) == (large.step_ms.low, small.step_ms.high)
    assert both.gpu_cores == (24, 32) and both.step_ms.low < both.step_ms.likely < both.step_ms.high


def test_bfloat16_is_slow_where_metal_emulates_it() -> None:
    for chip, slower in (("m1-pro", True), ("m2-pro", True), ("m3-pro", False)):
        half, full = of(chip, product(4096, torch.bfloat16)), of(chip, product(4096))
        assert (half.step_ms.likely > 1.3 * full.step_ms.likely) is slower, chip


def test_a_read_of_a_value_waits() -> None:
    read = Call(cost("aten::_local_scalar_dense", (spec(),), ()), 10, waits=True)
    more = of("m2", product(512), read).step_ms.likely - of("m2", product(512)).step_ms.likely
    assert more >= 10 * numbers()["host"]["sync_us"] / 1e3


def test_a_range_is_wider_where_nothing_near_was_fitted_and_says_why() -> None:
    large = spec(4096, 8192)
    pooled = Call(cost("aten::max_pool2d_with_indices", (large,), (large,)), 3)
    near, *far = (
        of("m4-pro", product(4096, torch.float16), cores=20),
        of("m4-pro", product(4096, torch.bfloat16), cores=20),
        of("m4-pro", pooled, cores=20),
    )
    assert not near.why_wide
    assert [one.why_wide for one in far] == [
        "no published bfloat16 step of any m4 was fitted",
        "no published step that spends its time on the same kernels was fitted",
    ]

    def width(one: Estimate) -> float:
        return one.step_ms.high / one.step_ms.low

    assert all(width(one) > 1.5 * width(near) for one in far)


def test_of_releases_before_2_0_other_steps_were_fitted() -> None:
    convolved = Call(
        cost("aten::_mps_convolution", (spec(32, 64, 56, 56), spec(64, 64, 3, 3)), (spec(32, 64, 56, 56),)), 9
    )
    old, new = (estimate([convolved], CHIPS["m1-max"], None, release) for release in ("1.13.1", RELEASE))
    assert old is not None and old.why_wide.endswith("on releases before 2.0.0")
    assert new is not None and not new.why_wide.endswith("on releases before 2.0.0")


def test_nothing_to_compute_has_no_time() -> None:
    view = Call(cost("aten::view", (spec(4),), (spec(4),)), 3)
    assert estimate([view], CHIPS["m1"], None, RELEASE) is None


@pytest.mark.parametrize("chip", CHIPS)
def test_every_chip_has_its_numbers(chip: str) -> None:
    assert 0 < of(chip, product(1024)).step_ms.low < 1e4
