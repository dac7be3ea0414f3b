"""Values: where they are known they are right, where they are not, what was assumed is written down."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mpsprobe_coverage.device import VirtualDevice
from mpsprobe_coverage.device.tensor import spec_of, undispatched, virtual_tensor
from mpsprobe_coverage.kernels.mps import load_table


def _unknown(*shape: int) -> torch.Tensor:
    """A virtual tensor without values, as every activation of a model without weights."""
    with undispatched():
        return virtual_tensor(spec_of(torch.empty(shape)))


def _written(values: torch.Tensor) -> Any:
    values[:, [1, 2]] = 5
    return values.tolist()


KNOWN: dict[str, tuple[Callable[[], Any], Any]] = {
    "sum of a range": (lambda: torch.arange(10, device="mps").sum().item(), 45),
    "comparison": (lambda: (torch.arange(4, device="mps") > 1).tolist(), [False, False, True, True]),
    "places of a mask": (
        lambda: torch.tensor([[True, False], [True, True]], device="mps").nonzero().tolist(),
        [[0, 0], [1, 0], [1, 1]],
    ),
    "selected by a mask": (
        lambda: torch.arange(4, device="mps")[torch.tensor([True, False, True, False], device="mps")].tolist(),
        [0, 2],
    ),
    "distinct": (lambda: torch.tensor([3, 1, 3], device="mps").unique().tolist(), [1, 3]),
    "largest": (lambda: torch.tensor([3, 9, 4], device="mps").argmax().item(), 1),
    "all equal": (lambda: torch.equal(torch.ones(2, device="mps"), torch.ones(2, device="mps")), True),
    "triangle": (lambda: torch.ones(2, 2, device="mps").tril().tolist(), [[1.0, 0.0], [1.0, 1.0]]),
    "joined": (
        lambda: torch.cat([torch.zeros(1, device="mps"), torch.ones(2, device="mps")]).tolist(),
        [0.0, 1.0, 1.0],
    ),
    "half": (lambda: torch.tensor([1.5], device="mps").half().item(), 1.5),
    "rest of a number": (lambda: (torch.arange(4, device="mps") % 3).tolist(), [0, 1, 2, 0]),
    "and a truth value": (lambda: (torch.tensor([True, False], device="mps") & True).tolist(), [True, False]),
    "places of a list": (lambda: torch.arange(4, device="mps")[[0, 2]].tolist(), [0, 2]),
    "written to places of a list": (lambda: _written(torch.zeros(2, 3, device="mps")), [[0.0, 5.0, 5.0]] * 2),
    "in a text": (lambda: f"expert_{torch.arange(4, device='mps')[2]}", "expert_2"),
}


@pytest.mark.parametrize("name", KNOWN)
def test_known_values_are_real(device: VirtualDevice, name: str) -> None:
    make, expected = KNOWN[name]
    with device.recording("forward"):
        assert make() == expected
    assert not list(device.recorder.assumptions())


@pytest.mark.parametrize(
    ("ask", "answer", "operator"),
    [
        (lambda x: x.sum().item(), 1.0, "aten::_local_scalar_dense"),
        (lambda x: bool((x > 0).any()), False, "aten::_local_scalar_dense"),
        (lambda x: int(x.long().max()), 1, "aten::_local_scalar_dense"),
        (lambda x: tuple(x.nonzero().shape), (6, 2), "aten::nonzero"),
        (lambda x: tuple(x[x > 0].shape), (6,), "aten::index.Tensor"),
        (lambda x: tuple(x.masked_select(x > 0).shape), (6,), "aten::masked_select"),
        (lambda x: x.tolist(), [[0.0] * 3] * 2, "aten::_to_copy"),
    ],
)
def test_unknown_values_are_assumed_and_noted(
    device: VirtualDevice, ask: Callable[[Any], Any], answer: Any, operator: str
) -> None:
    with device.recording("forward"):
        assert ask(_unknown(2, 3)) == answer
    (note,) = device.recorder.assumptions()
    assert note.operator == operator
    assert note.origin.file == __file__ and note.origin.line > 0 and note.text


def test_nothing_is_assumed_to_be_nan(device: VirtualDevice) -> None:
    assert bool(_unknown(2, 3).isnan().sum() == 0) and not bool(_unknown(2, 3).gt(0).sum() == 0)


def test_numbers_for_each_expert_make_the_whole(device: VirtualDevice) -> None:
    chosen = _unknown(5, 8).topk(2, dim=1)[1]
    for mask in (torch.zeros(5, 8, device="mps").scatter(1, chosen, 1), torch.nn.functional.one_hot(chosen, 8)):
        sizes = mask.long().sum(0).tolist() if mask.dim() == 2 else mask.sum((0, 1)).tolist()
        assert sum(sizes) == 10 and max(sizes) - min(sizes) == 1
    assert torch.zeros(2, 2, device="mps").scatter(0, chosen[:2, :2], _unknown(2, 2)).sum().item() == 1.0


def test_reading_a_number_is_a_call_too(device: VirtualDevice) -> None:
    with device.recording("forward"):
        torch.ones(1, device="mps").item()
    assert "aten::_local_scalar_dense" in [record.operator for record in device.recorder.calls()]


def test_views_share_their_values(device: VirtualDevice) -> None:
    x = torch.zeros(2, 3, device="mps")
    x[0].fill_(1)
    x.t()[2] += 5
    x.view(-1)[3] = 7
    assert x.tolist() == [[1.0, 1.0, 6.0], [7.0, 0.0, 5.0]]


def test_in_place_with_the_unknown_makes_unknown(device: VirtualDevice) -> None:
    x = torch.zeros(3, device="mps")
    x.add_(_unknown(3))
    with device.recording("forward"):
        assert x.sum().item() == 1.0
    assert len(list(device.recorder.assumptions())) == 1


def test_an_unknown_value_written_through_a_view_spoils_its_base(device: VirtualDevice) -> None:
    x = torch.zeros(2, 3, device="mps")
    x[0].copy_(_unknown(3))
    with device.recording("forward"):
        assert x.sum().item() == 1.0
    assert len(list(device.recorder.assumptions())) == 1


def test_an_unknown_value_set_by_index_spoils_the_tensor(device: VirtualDevice) -> None:
    x = torch.zeros(4, device="mps")
    x[torch.tensor([0, 1], device="mps")] = _unknown(2)
    with device.recording("forward"):
        assert x.sum().item() == 1.0
    assert len(list(device.recorder.assumptions())) == 1


def test_fresh_memory_decides_nothing(device: VirtualDevice) -> None:
    for make in (torch.empty, torch.ones):
        assert torch.empty_like(make(100, device="mps")).tolist() == [0.0] * 100


def test_overwriting_the_unknown_does_not_make_a_view_of_it_wrong(device: VirtualDevice) -> None:
    x = _unknown(2, 3)
    row = x[0]
    row.zero_()
    x.add_(_unknown(2, 3))
    with device.recording("forward"):
        row.sum().item()
    assert len(list(device.recorder.assumptions())) == 1


def test_what_a_program_writes_into_its_inputs_stays_with_it(device: VirtualDevice) -> None:
    mine = torch.zeros(3)
    device.move(mine).add_(1)
    assert mine.tolist() == [0.0] * 3


def test_control_flow_follows_known_values(device: VirtualDevice) -> None:
    mask = torch.tensor([1, 1, 0], device="mps")
    with device.recording("forward"):
        x = torch.ones(3, device="mps")
        for _ in range(int(mask.sum())):
            x = torch.sin(x)
        if mask.all():
            x = torch.cos(x)
    counts = {r.operator: r.calls for r in device.recorder.calls()}
    assert counts["aten::sin"] == 2 and "aten::cos" not in counts


def test_large_values_are_not_kept() -> None:
    with VirtualDevice(load_table("2.13.0"), shadow_limit=8) as device, device.recording("forward"):
        small, large = torch.arange(8, device="mps"), torch.arange(9, device="mps")
        assert small.sum().item() == 28
        assert not list(device.recorder.assumptions())
        assert large.sum().item() == 9  # what is not known is counted
    assert len(list(device.recorder.assumptions())) == 1


def test_real_weights_compute_real_numbers() -> None:
    model = torch.nn.Linear(2, 1)
    expected = model(torch.ones(1, 2)).item()
    with VirtualDevice(load_table("2.13.0"), keep_weights=True) as device:
        device.move(model)
        assert model(torch.ones(1, 2, device="mps")).item() == pytest.approx(expected)


def test_weights_without_values_are_never_read_as_zeros(device: VirtualDevice) -> None:
    model = device.move(torch.nn.Linear(2, 1))
    with device.recording("forward"):
        assert model(torch.ones(1, 2, device="mps")).item() == 1.0
    assert len(list(device.recorder.assumptions())) == 1


def test_in_place_changes_of_shape(device: VirtualDevice) -> None:
    x = torch.arange(6.0, device="mps").reshape(2, 3)
    x.t_()
    assert (tuple(x.shape), x.stride(), x[2].tolist()) == ((3, 2), (1, 3), [2.0, 5.0])
    x.unsqueeze_(0)
    assert tuple(x.shape) == (1, 3, 2)
    x.squeeze_().transpose_(0, 1)
    assert (tuple(x.shape), x.tolist()) == ((2, 3), [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]])
    y = torch.ones(2, device="mps")
    y.resize_(2, 4)
    assert tuple(y.shape) == (2, 4) and tuple((y + 1).shape) == (2, 4)
    y.set_(torch.ones(5, device="mps"))
    assert tuple(y.shape) == (5,) and y.sum().item() == 5.0


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
def test_out_arguments(device: VirtualDevice) -> None:
    right, wrong = torch.zeros(2, device="mps"), torch.zeros(5, device="mps")
    ones = torch.ones(2, device="mps")
    assert torch.add(ones, ones, out=right) is right and right.tolist() == [2.0, 2.0]
    assert torch.add(ones, ones, out=wrong) is wrong
    assert tuple(wrong.shape) == (2,) and wrong.tolist() == [2.0, 2.0]


_STEPS = st.lists(
    st.sampled_from(["add", "mul", "t", "index", "view", "cat", "flip", "where", "cumsum", "reshape"]), max_size=8
)


def _apply(step: str, x: torch.Tensor) -> torch.Tensor:
    match step:
        case "add":
            return x.add_(1)
        case "mul":
            return x * 2
        case "t":
            return x.t()
        case "index":
            x[0] = x[1] + 3
            return x
        case "view":
            x[:, 1:].mul_(2)
            return x
        case "cat":
            return torch.cat([x[1:], x[:1]])
        case "flip":
            return x.flip(0)
        case "where":
            return torch.where(x > 3, x, x - 1)
        case "cumsum":
            return x.cumsum(1)
        case _:
            return x.contiguous().reshape(x.shape[1], x.shape[0])


@settings(max_examples=60)
@given(_STEPS)
def test_known_values_stay_those_of_the_cpu(steps: list[str]) -> None:
    real = torch.arange(6.0).reshape(2, 3)
    with VirtualDevice(load_table("2.13.0")) as device:
        virtual = device.move(real.clone())
        for step in steps:
            real, virtual = _apply(step, real), _apply(step, virtual)
        assert (tuple(virtual.shape), virtual.stride()) == (tuple(real.shape), real.stride())
        assert virtual.tolist() == real.tolist()
