"""Values: where they are known they are right, where they are not, what was assumed is written down."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mpsprobe_coverage.device import VirtualDevice
from mpsprobe_coverage.device.recorder import Note
from mpsprobe_coverage.device.tensor import spec_of, undispatched, virtual_tensor
from mpsprobe_coverage.kernels.mps import load_table


def _unknown(*shape: int) -> torch.Tensor:
    """A virtual tensor without values, as every activation of a model without weights."""
    with undispatched():
        return virtual_tensor(spec_of(torch.empty(shape)))


def _set(x: torch.Tensor, place: Any, value: Any) -> torch.Tensor:
    x[place] = value
    return x


def _resized(on: str) -> Any:
    y = torch.ones(2, device=on)
    return tuple(y.resize_(2, 4).shape), tuple((y + 1).shape), y.set_(torch.ones(5, device=on)).tolist()


def _through_views(on: str) -> Any:
    x = torch.zeros(2, 3, device=on)
    x[0].fill_(1)
    x.t()[2] += 5
    x.view(-1)[3] = 7
    return x.tolist()


def _shapes_in_place(on: str) -> Any:
    x = torch.arange(6.0, device=on).reshape(2, 3)
    changes = (x.t_, lambda: x.unsqueeze_(0), x.squeeze_, lambda: x.transpose_(0, 1))
    return [(tuple(change().shape), x.stride(), x.tolist()) for change in changes]


def _gradients(on: str) -> Any:
    x, w = (torch.tensor(values, device=on, requires_grad=True) for values in ([[1.0, 2.0]], [[3.0, 4.0]]))
    return [g.tolist() for g in torch.autograd.grad(torch.nn.functional.linear(x, w).sum(), (x, w))]


def _outputs(on: str) -> Any:
    right, wrong, ones = torch.zeros(2, device=on), torch.zeros(5, device=on), torch.ones(2, device=on)
    same = torch.add(ones, ones, out=right) is right, torch.add(ones, ones, out=wrong) is wrong
    return same, right.tolist(), wrong.tolist()


KNOWN: list[Callable[[str], Any]] = [
    lambda on: torch.arange(10, device=on).sum().item(),
    lambda on: (torch.arange(4, device=on) > 1).tolist(),
    lambda on: torch.tensor([[True, False], [True, True]], device=on).nonzero().tolist(),
    lambda on: torch.arange(4, device=on)[torch.tensor([True, False, True, False], device=on)].tolist(),
    lambda on: torch.tensor([3, 1, 3], device=on).unique().tolist(),
    lambda on: torch.tensor([3, 9, 4], device=on).argmax().item(),
    lambda on: torch.equal(torch.ones(2, device=on), torch.ones(2, device=on)),
    lambda on: torch.ones(2, 2, device=on).tril().tolist(),
    lambda on: torch.cat([torch.zeros(1, device=on), torch.ones(2, device=on)]).tolist(),
    lambda on: torch.tensor([1.5], device=on).half().item(),
    lambda on: (torch.arange(4, device=on) % 3).tolist(),
    lambda on: (torch.tensor([True, False], device=on) & True).tolist(),
    lambda on: torch.arange(4, device=on)[[0, 2]].tolist(),
    lambda on: _set(torch.zeros(2, 3, device=on), (slice(None), [1, 2]), 5).tolist(),
    lambda on: bool(torch.tensor([1, 1, 0], device=on).all()),
    _through_views,
    _shapes_in_place,
    _resized,
    _outputs,
    _gradients,
]


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
def test_known_values_are_those_of_the_cpu(device: VirtualDevice) -> None:
    with device.recording("forward"):
        for made in KNOWN:
            assert made("mps") == made("cpu")
    assert not list(device.recorder.assumptions())


def _assumed(run: Callable[[VirtualDevice], Any], **options: Any) -> tuple[Any, list[Note]]:
    """What ``run`` returns, and what was assumed for it."""
    with VirtualDevice(load_table("2.13.0"), **options) as device, device.recording("forward"):
        found = run(device)
    return found, list(device.recorder.assumptions())


ASKED: list[tuple[Callable[[Any], Any], Any, str]] = [
    (lambda x: x.sum().item(), 1.0, "aten::_local_scalar_dense"),
    (lambda x: bool((x > 0).any()), False, "aten::_local_scalar_dense"),
    (lambda x: int(x.long().max()), 1, "aten::_local_scalar_dense"),
    (lambda x: tuple(x.nonzero().shape), (6, 2), "aten::nonzero"),
    (lambda x: tuple(x[x > 0].shape), (6,), "aten::index.Tensor"),
    (lambda x: tuple(x.masked_select(x > 0).shape), (6,), "aten::masked_select"),
    (lambda x: x.tolist(), [[0.0] * 3] * 2, "aten::_to_copy"),
    (lambda x: bool(x.isnan().sum() == 0), True, "aten::_local_scalar_dense"),
    (lambda x: bool(x.gt(0).sum() == 0), False, "aten::_local_scalar_dense"),
]


def test_unknown_values_are_assumed_and_noted() -> None:
    for ask, answer, operator in ASKED:
        found, (note,) = _assumed(lambda _, ask=ask: ask(_unknown(2, 3)))  # type: ignore[misc]
        assert (found, note.operator) == (answer, operator)
        assert note.origin.file == __file__ and note.origin.line > 0 and note.text


def test_numbers_for_each_expert_make_the_whole(device: VirtualDevice) -> None:
    chosen = _unknown(5, 8).topk(2, dim=1)[1]
    for mask in (torch.zeros(5, 8, device="mps").scatter(1, chosen, 1), torch.nn.functional.one_hot(chosen, 8)):
        sizes = mask.long().sum(0).tolist() if mask.dim() == 2 else mask.sum((0, 1)).tolist()
        assert sum(sizes) == 10 and max(sizes) - min(sizes) == 1
    assert torch.zeros(2, 2, device="mps").scatter(0, chosen[:2, :2], _unknown(2, 2)).sum().item() == 1.0


@pytest.mark.parametrize(
    "write",
    [
        lambda _, x: x.add_(_unknown(2, 3)),
        lambda _, x: x[0].copy_(_unknown(3)),
        lambda _, x: _set(x, torch.tensor([0], device="mps"), _unknown(3)),
        lambda device, x: x.copy_(device.move(torch.nn.Linear(3, 3))(x)),
    ],
    ids=["in place", "through a view", "by index", "as a model's result"],
)
def test_writing_the_unknown_makes_unknown(write: Callable[..., Any]) -> None:
    def run(device: VirtualDevice) -> Any:
        x = torch.zeros(2, 3, device="mps")
        write(device, x)
        return x.sum().item()

    found, assumed = _assumed(run)
    assert (found, len(assumed)) == (1.0, 1)


def test_fresh_memory_decides_nothing_and_inputs_stay_as_they_are(device: VirtualDevice) -> None:
    for make in (torch.empty, torch.ones):
        assert torch.empty_like(make(100, device="mps")).tolist() == [0.0] * 100
    mine = torch.zeros(3)
    device.move(mine).add_(1)
    assert mine.tolist() == [0.0] * 3


def test_overwriting_the_unknown_does_not_make_a_view_of_it_wrong() -> None:
    def run(_: VirtualDevice) -> None:
        x = _unknown(2, 3)
        row = x[0]
        row.zero_()
        x.add_(_unknown(2, 3))
        row.sum().item()

    assert len(_assumed(run)[1]) == 1


@pytest.mark.parametrize(("count", "total", "assumed"), [(8, 28, 0), (9, 9, 1)])  # what is not known is counted
def test_large_values_are_not_kept(count: int, total: int, assumed: int) -> None:
    found, notes = _assumed(lambda _: torch.arange(count, device="mps").sum().item(), shadow_limit=8)
    assert (found, len(notes)) == (total, assumed)


STEPS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "add": lambda x: x.add_(1),
    "mul": lambda x: x * 2,
    "t": lambda x: x.t(),
    "index": lambda x: _set(x, 0, x[1] + 3),
    "view": lambda x: (x[:, 1:].mul_(2), x)[1],
    "cat": lambda x: torch.cat([x[1:], x[:1]]),
    "flip": lambda x: x.flip(0),
    "where": lambda x: torch.where(x > 3, x, x - 1),
    "cumsum": lambda x: x.cumsum(1),
    "reshape": lambda x: x.contiguous().reshape(x.shape[1], x.shape[0]),
}


@settings(max_examples=60)
@given(st.lists(st.sampled_from(list(STEPS)), max_size=8))
def test_known_values_stay_those_of_the_cpu(steps: list[str]) -> None:
    real = torch.arange(6.0).reshape(2, 3)
    with VirtualDevice(load_table("2.13.0")) as device:
        virtual = device.move(real.clone())
        for step in steps:
            real, virtual = STEPS[step](real), STEPS[step](virtual)
        assert (tuple(virtual.shape), virtual.stride()) == (tuple(real.shape), real.stride())
        assert virtual.tolist() == real.tolist()
