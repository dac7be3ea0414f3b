"""Sizes that kernels refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from packaging.version import Version
from torch.nn import functional

from mpsprobe_coverage.device import VirtualDevice
from mpsprobe_coverage.kernels.mps import load_table


def _refused(release: str, operation: Callable[[], Any], operator: str) -> str | None:
    """What the first call of ``operator`` is refused for; fails where it was not called."""
    with VirtualDevice(load_table(release)) as device, device.recording("forward"):
        operation()
    (record, *_) = [record for record in device.recorder.calls() if record.operator == operator]
    return record.judgement.reason if record.judgement.verdict == "unsupported" else None


@pytest.mark.parametrize(
    ("release", "size", "output", "message"),
    [
        ("2.13.0", (6, 9), (3, 3), None),
        ("2.13.0", (6, 7), (3, 3), "input sizes must be divisible by output sizes"),
        ("2.13.0", (3, 4), (6, 8), None),
        ("2.13.0", (3, 4), (7, 8), "output sizes must be divisible by input sizes"),
        ("2.13.0", (4, 4), (2, 8), "Input height and width must both be great"),
        ("2.13.0", (4, 4), (4, 4), None),
        ("2.13.0", (4, 4), (4, 8), None),
        ("1.13.1", (6, 7), (3, 3), None),
        ("1.13.1", (3, 4), (7, 8), "output sizes must be multiples of input sizes"),
    ],
)
def test_average_pools_that_do_not_divide(
    release: str, size: tuple[int, int], output: tuple[int, int], message: str | None
) -> None:
    images = torch.ones(1, 2, *size)
    refused = _refused(
        release, lambda: functional.adaptive_avg_pool2d(images.to("mps"), output), "aten::_adaptive_avg_pool2d"
    )
    assert refused is None if message is None else message in str(refused)


def test_an_average_pool_to_one_pixel_is_a_mean() -> None:
    images = torch.ones(1, 2, 5, 7)
    assert _refused("2.13.0", lambda: functional.adaptive_avg_pool2d(images.to("mps"), 1), "aten::mean.dim") is None


def test_a_max_pool_need_not_divide() -> None:
    images = torch.ones(1, 2, 5, 7)
    pool = "aten::adaptive_max_pool2d"
    assert _refused("2.13.0", lambda: functional.adaptive_max_pool2d(images.to("mps"), (2, 2)), pool) is None
    refused = _refused("2.13.0", lambda: functional.adaptive_max_pool2d(images.to("mps"), (2, 9)), pool)
    assert "Input height and width" in str(refused)


def test_the_gradient_of_a_pool_that_does_not_divide() -> None:
    with VirtualDevice(load_table("2.13.0")) as device:
        images = torch.ones(1, 2, 5, 5).to("mps").requires_grad_()
        pooled = functional.adaptive_avg_pool2d(images, 2)
        with device.recording("backward"):
            pooled.sum().backward()
    found = {record.operator: record.judgement.verdict for record in device.recorder.calls()}
    assert found["aten::_adaptive_avg_pool2d_backward"] == "unsupported"


@pytest.mark.parametrize(("release", "refuses"), [("2.4.1", False), ("2.5.1", True), ("2.6.0", False)])
def test_output_channels(release: str, refuses: bool) -> None:
    # From 2.6.0 on the message is for macOS before 15.1 only.
    def convolve(channels: int) -> Any:
        return functional.conv1d(torch.ones(1, 1, 3).to("mps"), torch.ones(channels, 1, 1).to("mps"))

    refused = _refused(release, lambda: convolve(65537), "aten::_mps_convolution")
    assert ("65536" in str(refused)) is refuses
    assert _refused(release, lambda: convolve(65536), "aten::_mps_convolution") is None


def test_a_product_with_a_dimension_over_2_to_32() -> None:
    def multiply(columns: int) -> Any:
        return torch.empty(1, 1, 1, device="mps").bmm(torch.empty(1, 1, 1, device="mps").expand(1, 1, columns))

    assert "2**32" in str(_refused("2.13.0", lambda: multiply(2**32 + 1), "aten::bmm"))
    assert _refused("2.13.0", lambda: multiply(2**32), "aten::bmm") is None


def test_more_than_sixteen_dimensions() -> None:
    operator = "aten::empty.memory_format"
    assert _refused("2.13.0", lambda: torch.empty([1] * 16, device="mps"), operator) is None
    assert "dimensions <=" in str(_refused("2.13.0", lambda: torch.empty([1] * 17, device="mps"), operator))


def test_more_elements_than_a_kernel_counts() -> None:
    def largest(elements: int) -> Any:
        return torch.empty(1, device="mps").expand(elements).argmax()

    refused = _refused("2.15.0", lambda: largest(2**32), "aten::argmax")
    assert refused == "argmax: tensors requiring 64-bit indexing are not supported"
    assert _refused("2.15.0", lambda: largest(2**32 - 1), "aten::argmax") is None
    assert _refused("2.13.0", lambda: largest(2**32), "aten::argmax") is None


@pytest.mark.parametrize(
    ("reduce", "operator", "since"),
    [
        (torch.sum, "aten::sum.dim_IntList", "2.14.0"),
        (torch.max, "aten::max", "2.14.0"),
        (lambda tensor: tensor.max(0), "aten::max.dim", "2.14.0"),
        (lambda tensor: tensor.amin(0), "aten::amin", "2.14.0"),
        (torch.count_nonzero, "aten::count_nonzero.dim_IntList", "2.14.0"),
        (torch.linalg.vector_norm, "aten::linalg_vector_norm", "2.14.0"),
        (torch.std, "aten::std.correction", "2.15.0"),
        (torch.prod, "aten::prod", "2.15.0"),
    ],
)
def test_reductions_of_more_elements_than_a_kernel_counts(
    reduce: Callable[[torch.Tensor], Any], operator: str, since: str
) -> None:
    def over(*shape: int) -> Any:
        return reduce(torch.empty(1, device="mps").expand(shape))

    for release in ("2.13.0", "2.14.0", "2.15.0"):
        refused = _refused(release, lambda: over(2**16, 2**16), operator)
        assert (refused is not None) is (Version(release) >= Version(since))
        assert _refused(release, lambda: over(2**16 - 1, 2**16 + 1), operator) is None


def test_the_gradient_of_a_pool_of_more_elements_than_a_kernel_counts() -> None:
    def pool(elements: int) -> Any:
        images = torch.empty(1, 1, 1, elements, dtype=torch.float16, device="mps")
        grads = torch.empty(1, 1, 1, 1, dtype=torch.float16, device="mps")
        places = torch.empty(1, 1, 1, 1, dtype=torch.int64, device="mps")
        size, step = [1, 1], [1, elements]
        return torch.ops.aten.max_pool2d_with_indices_backward(grads, images, size, step, [0, 0], [1, 1], False, places)

    operator = "aten::max_pool2d_with_indices_backward"
    assert "64-bit" in str(_refused("2.15.0", lambda: pool(2**31 - 1), operator))
    assert _refused("2.15.0", lambda: pool(2**31 - 2), operator) is None
    assert _refused("2.13.0", lambda: pool(2**31 - 1), operator) is None


def test_the_gradient_of_an_embedding_of_more_elements_than_an_int_counts() -> None:
    def embed(indices: int, rows: int, size: int) -> Any:
        places = torch.empty(1, dtype=torch.int64, device="mps").expand(indices)
        grads = torch.empty(1, 1, device="mps").expand(indices, size)
        return torch.ops.aten.embedding_dense_backward(grads, places, rows, -1, False)

    operator = "aten::embedding_dense_backward"
    for shape in ((1, 2**15, 2**16), (2**15, 1, 2**16), (2**31, 1, 1)):
        assert "INT32_MAX" in str(_refused("2.13.0", lambda shape=shape: embed(*shape), operator))
        assert (_refused("2.12.1", lambda shape=shape: embed(*shape), operator) is None) is (2**31 not in shape)
    for shape in ((1, 2**15 - 1, 2**16), (2**15 - 1, 1, 2**16), (2**31 - 1, 1, 1), (0, 2**15, 2**16)):
        assert _refused("2.15.0", lambda shape=shape: embed(*shape), operator) is None


def test_a_mask_over_more_elements_than_a_kernel_counts() -> None:
    def fill(elements: int) -> Any:
        mask = torch.empty(1, dtype=torch.bool, device="mps").expand(elements)
        return torch.empty(elements, dtype=torch.int8, device="mps").masked_fill_(mask, 0)

    assert "2**32" in str(_refused("2.13.0", lambda: fill(2**32), "aten::masked_fill_.Scalar"))
    assert _refused("2.13.0", lambda: fill(2**32 - 1), "aten::masked_fill_.Scalar") is None


def test_what_grows_one_way_only_was_refused_for_max_pools_up_to_2_13() -> None:
    images = torch.ones(1, 2, 5, 7)

    def pool() -> Any:
        return functional.adaptive_max_pool2d(images.to("mps"), (2, 9))

    assert _refused("2.13.0", pool, "aten::adaptive_max_pool2d") is not None
    assert _refused("2.14.0", pool, "aten::adaptive_max_pool2d") is None
