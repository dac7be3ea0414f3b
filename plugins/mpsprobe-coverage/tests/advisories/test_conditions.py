"""The language of conditions, compared with PyTorch's own words for the same things."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mpsprobe_coverage.advisories.conditions import (
    is_channels_last,
    is_channels_last_slice,
    is_contiguous,
    is_expanded,
    is_packed,
    matches,
)
from mpsprobe_coverage.advisories.model import Advisory
from mpsprobe_coverage.calls.call import Call
from mpsprobe_coverage.device.tensor import spec_of

OTHERS = {
    "id": "an-example", "title": "An example", "operators": ["aten::addmm"], "condition": "c", "symptom": "Wrong.",
    "workaround": "Do not.", "torch": {"since": "2.1.0", "open": True}, "macos": {}, "basis": "Read.",
    "sources": ["pytorch/pytorch#1"],
}  # fmt: skip


def _advisory(*when: list[Any], when_any: list[list[list[Any]]] | None = None) -> Advisory:
    return Advisory.model_validate({**OTHERS, "when": list(when), "when_any": when_any or []})


def _call() -> Call:
    """``addmm`` of a 2x3 and an expanded 3x4 in float16, with a bias of four elements and alpha=2."""
    bias, left = torch.zeros(4, dtype=torch.float16), torch.zeros(2, 3, dtype=torch.float16)
    right = torch.zeros(1, 4, dtype=torch.float16).expand(3, 4)
    specs = tuple(map(spec_of, (bias, left, right)))
    out = spec_of(torch.zeros(2, 4, dtype=torch.float16))
    return Call(torch.ops.aten.addmm.default, (bias, left), {"mat2": right, "alpha": 2}, specs, (out,))


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        (["mat1[-1]", "==", 3], True),
        (["mat1[-1]", ">", 3], False),
        (["mat1[0]", "<", "mat2[1]"], True),
        (["mat1[5]", "==", 3], False),
        (["mat1[-1]", "divides", 9], True),
        (["mat1[-1]", "does not divide", 9], False),
        (["mat1[-1]", "does not divide", "output0[-1]"], True),
        (["mat1.elements", ">=", 6], True),
        (["mat1.rows", "==", 2], True),
        (["mat1.dims", "!=", 2], False),
        (["self.dtype", "in", ["float16", "bfloat16"]], True),
        (["self.dtype", "not in", ["float16"]], False),
        (["mat2", "is", "expanded"], True),
        (["mat1", "is not", "contiguous"], False),
        (["beta", "is", 1], True),
        (["alpha", "is", 1], False),
        (["alpha", ">", 1], True),
        (["beta", "is", True], False),
        (["self", "is", "given"], True),
        (["tensor2[-1]", "==", 4], True),
        (["tensor7[-1]", "==", 4], False),
        (["nothing", "is not", "given"], False),
        (["mat1[-3]", "==", 2], False),
        (["phase", "in", ["forward"]], True),
        (["phase", "in", ["backward"]], False),
    ],
)
def test_one_condition(condition: list[Any], holds: bool) -> None:
    assert matches(_advisory(condition), _call(), "forward") is holds


def test_all_of_when_and_one_of_the_alternatives() -> None:
    yes, no = ["mat1[-1]", "==", 3], ["mat1[-1]", "==", 4]
    assert matches(_advisory(yes, yes), _call(), "forward")
    assert not matches(_advisory(yes, no), _call(), "forward")
    assert matches(_advisory(yes, when_any=[[no], [yes, yes]]), _call(), "forward")
    assert not matches(_advisory(yes, when_any=[[no], [yes, no]]), _call(), "forward")


def test_entries_of_a_list() -> None:
    gradient, weight = torch.zeros(2, 3), torch.zeros(3, 4)
    arguments = (torch.zeros(2, 4), gradient, weight, [True, False, False])
    call = Call(torch.ops.aten.linear_backward.default, arguments, {}, (), ())
    assert matches(_advisory(["output_mask[0]", "is", True], ["output_mask[-1]", "is", False]), call, "backward")
    assert not matches(_advisory(["output_mask[1]", "is", True]), call, "backward")
    assert not matches(_advisory(["output_mask[7]", "is", False]), call, "backward")


def _viewed(draw: st.DrawFn) -> torch.Tensor:
    shape = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    made = torch.zeros(shape)
    order = draw(st.permutations(range(len(shape))))
    made = made.permute(*order)
    if draw(st.booleans()):
        dim = draw(st.integers(0, len(shape) - 1))
        made = made.narrow(dim, 0, max(made.shape[dim] - 1, 1))
    if made.dim() in (4, 5) and draw(st.booleans()):
        last = torch.channels_last if made.dim() == 4 else torch.channels_last_3d
        made = made.contiguous(memory_format=last)
    return made


views = st.composite(_viewed)()


@given(views)
def test_layouts_are_those_of_pytorch(tensor: torch.Tensor) -> None:
    spec = spec_of(tensor)
    assert is_contiguous(spec) == tensor.is_contiguous()
    assert is_packed(spec) == (torch._debug_has_internal_overlap(tensor) == 0 and _fills_its_memory(tensor))
    assert not is_expanded(spec)
    if tensor.dim() in (4, 5):
        last = torch.channels_last if tensor.dim() == 4 else torch.channels_last_3d
        assert is_channels_last(spec) == tensor.is_contiguous(memory_format=last)


def _fills_its_memory(tensor: torch.Tensor) -> bool:
    reach = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return reach == tensor.numel()


def test_a_slice_of_channels() -> None:
    image = torch.zeros(2, 4, 5, 6).contiguous(memory_format=torch.channels_last)
    assert is_channels_last_slice(spec_of(image[:, :2])) and is_channels_last_slice(spec_of(image[:, 1:]))
    for other in (image, image.contiguous(), torch.zeros(2, 4, 5, 6)[:, :2], image[:, :, 1:], torch.zeros(4)):
        assert not is_channels_last_slice(spec_of(other)), other.stride()
