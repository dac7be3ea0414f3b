"""What programs see of tensors of MPS: values where they are known, and what Python can do with them on and off it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from expectations import TORCH_2_6
from hypothesis import given, settings
from hypothesis import strategies as st

from mpsprobe_coverage.devices.virtual import VirtualDevice
from mpsprobe_coverage.devices.virtual.tensor import spec_of, undispatched, virtual_tensor
from mpsprobe_coverage.knowledge.kernels.mps import load_table
from mpsprobe_coverage.recording.recorder import Note


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


_VALUES = [[1.0, 2.0], [3.0, 4.0]]

_WAYS: list[Callable[[], Any]] = [
    lambda: torch.tensor(_VALUES).to("mps"),
    lambda: torch.tensor(_VALUES).to(torch.device("mps", 0)),
    lambda: torch.tensor(_VALUES).to(device="mps", non_blocking=True),
    lambda: torch.tensor(_VALUES, dtype=torch.float64).to("mps", torch.float32),
    lambda: torch.tensor(_VALUES).to(torch.ones(1, device="mps")),
    lambda: torch.tensor(_VALUES, device="mps"),
    lambda: torch.as_tensor(_VALUES, device="mps"),
    lambda: torch.asarray(_VALUES, device="mps"),
    lambda: torch.ones(1, device="mps").new_tensor(_VALUES),
    lambda: torch.full((2, 2), 2.0, device="mps") + torch.tensor([[-1.0, 0.0], [1.0, 2.0]], device="mps"),
    lambda: torch.arange(1.0, 5.0, device="mps").reshape(2, 2),
    lambda: torch.from_numpy(torch.tensor(_VALUES).numpy()).to("mps"),
    lambda: torch.ones(1, device="mps").new_zeros(2, 2).add_(torch.tensor(_VALUES, device="mps")),
    lambda: torch.zeros_like(torch.ones(2, 2, device="mps")) + torch.tensor(_VALUES, device="mps"),
]


def test_onto_the_device(device: VirtualDevice) -> None:
    for way in _WAYS:
        made = way()
        assert (made.device, made.dtype, tuple(made.shape)) == (torch.device("mps", 0), torch.float32, (2, 2))
        assert made.is_mps and not made.is_cpu and not made.is_meta and made.get_device() == 0
        assert made.tolist() == _VALUES
    assert not list(device.recorder.assumptions())


def test_the_device_context_makes_everything_there(device: VirtualDevice) -> None:
    with torch.device("mps"):
        made = [torch.zeros(2), torch.tensor([1, 2]), torch.arange(3), torch.rand(2), torch.nn.Linear(2, 3).weight]
        assert torch.get_default_device() == torch.device("cpu" if TORCH_2_6 else "mps:0")
    assert {tensor.device.type for tensor in made} == {"mps"}
    assert torch.zeros(2).device.type == "cpu"


def test_types_and_copies(device: VirtualDevice) -> None:
    tensor = torch.ones(2, device="mps")
    assert tensor.type() == "torch.mps.FloatTensor" and tensor.half().device.type == "mps"
    assert tensor.type(torch.float16).dtype is torch.float16
    assert tensor.element_size() == 4 and tensor.nbytes == 8 and tensor.numel() == 2
    with device.recording("forward"):
        torch.ones(4).to("mps").cpu()
    (copies,) = device.recorder.calls()
    assert (copies.operator, copies.judgement.verdict, copies.calls) == ("aten::copy_", "native", 2)


def test_off_the_device(device: VirtualDevice) -> None:
    tensor = torch.tensor([1.5, 2.5], device="mps")
    assert type(tensor.cpu()) is torch.Tensor and tensor.cpu().device.type == "cpu"
    assert tensor.to("cpu").tolist() == tensor.cpu().numpy().tolist() == tensor.numpy(force=True).tolist() == [1.5, 2.5]
    assert tensor[1].item() == 2.5 and float(tensor[0]) == 1.5 and bool(tensor[0] > 1)
    for refused in (tensor.numpy, lambda: memoryview(tensor.__array__())):  # as on a Mac
        with pytest.raises(TypeError, match="mps:0 device type tensor to numpy"):
            refused()


def test_data_can_be_read_and_replaced(device: VirtualDevice) -> None:
    parameter = device.move(torch.nn.Parameter(torch.ones(2, 3)))
    assert parameter.data.device.type == "mps" and not parameter.data.requires_grad
    parameter.data = torch.full((3, 4), 2.0, device="mps")
    assert tuple(parameter.shape) == (3, 4) and parameter.requires_grad
    assert parameter.sum().item() == 24.0
    assert tuple(parameter.data.mul_(2).shape) == (3, 4) and parameter.sum().item() == 48.0


def test_inputs_move_with_their_containers_and_tied_parameters_stay_tied(device: VirtualDevice) -> None:
    moved = device.move({"a": [torch.ones(1), (torch.ones(2), "text", None)], "b": {"c": torch.ones(3)}})
    assert moved["a"][0].device.type == moved["a"][1][0].device.type == moved["b"]["c"].device.type == "mps"
    assert moved["a"][1][1:] == ("text", None) and type(moved["a"][1]) is tuple
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
    model[1].weight = model[0].weight
    assert device.move(model)[1].weight is model[0].weight and model[0].weight.is_mps


def test_random_numbers_have_shapes_and_no_influence(device: VirtualDevice) -> None:
    torch.manual_seed(0)
    expected = torch.rand(3).tolist()
    torch.manual_seed(0)
    made = [torch.rand(2, device="mps"), torch.randint(0, 5, (2,), device="mps"), torch.randperm(4, device="mps")]
    assert [tuple(t.shape) for t in made] == [(2,), (2,), (4,)]
    torch.manual_seed(0)
    assert torch.rand(3).tolist() == expected


def test_a_model_is_built_as_where_mps_is_there() -> None:
    def table() -> torch.Tensor:
        return torch.arange(4, dtype=torch.float32 if torch.backends.mps.is_available() else torch.float64)

    before = torch.backends.mps.is_available(), torch.Generator
    with VirtualDevice(load_table("2.13.0")).construction():
        assert table().dtype == torch.float32
        assert torch.Generator(device="mps").device.type == "mps"
    assert (torch.backends.mps.is_available(), torch.Generator) == before


_DRAWS: list[Callable[[torch.Generator], Any]] = [
    lambda g: torch.rand(3, device="mps", generator=g),
    lambda g: torch.randn((2, 2), generator=g, device="mps"),
    lambda g: torch.randint(5, (3,), device="mps", generator=g),
    lambda g: torch.randperm(5, device="mps", generator=g),
    lambda g: torch.empty(3, device="mps").uniform_(generator=g),
    lambda g: torch.bernoulli(torch.full((3,), 0.5, device="mps"), generator=g),
    lambda g: torch.multinomial(torch.ones(4, device="mps"), 2, generator=g),
]


@pytest.mark.parametrize("where", ["mps", "mps:0", torch.device("mps")])
def test_a_generator_of_the_device_draws(device: VirtualDevice, where: Any) -> None:
    generator = torch.Generator(device=where).manual_seed(3)
    copied = generator.clone_state()
    assert copied is not generator and torch.equal(copied.get_state(), generator.get_state())
    for one in (generator, copied):
        assert one.device == torch.device("mps", 0) and isinstance(one, torch.Generator)
    with device.recording("forward"):
        assert {draw(generator).device.type for draw in _DRAWS} == {"mps"}
    assert {r.judgement.verdict for r in device.recorder.calls()} == {"native"}


def test_a_generator_of_the_cpu_stays_one(device: VirtualDevice) -> None:
    generators = torch.Generator().manual_seed(1), torch.Generator("cpu").manual_seed(1)
    assert all(one.device.type == "cpu" and isinstance(one, torch.Generator) for one in generators)
    first, second = (torch.rand(3, generator=one).tolist() for one in generators)
    assert first == second


def test_the_default_generator_has_a_state(device: VirtualDevice) -> None:
    torch.mps.manual_seed(7)
    state = torch.mps.get_rng_state()
    assert state.dtype is torch.uint8 and state.device.type == "cpu"
    torch.manual_seed(8)  # seeds every device
    assert not torch.equal(torch.mps.get_rng_state(), state)
    torch.mps.set_rng_state(state)
    assert torch.equal(torch.mps.get_rng_state(), state)
    torch.mps.seed()
    before = torch.mps.get_rng_state()
    assert not torch.equal(before, state)
    with torch.random.fork_rng(device_type="mps"):
        torch.mps.manual_seed(5)
        assert not torch.equal(torch.mps.get_rng_state(), before)
    assert torch.equal(torch.mps.get_rng_state(), before)


def test_events_have_happened(device: VirtualDevice) -> None:
    start, end = torch.mps.Event(enable_timing=True), torch.mps.Event(enable_timing=True)
    for event in (start, end):
        event.record()
        event.wait()
        event.synchronize()
    assert start.query() and start.elapsed_time(end) >= 0.0
    first, last = (torch.Event(device="mps", enable_timing=True, blocking=True) for _ in range(2))
    first.record()
    torch.Stream(device="mps").record_event(last)
    assert first.elapsed_time(last) >= 0 and isinstance(first, torch.Event) and first.device.type == "mps"
    assert isinstance(torch.Event(device="cpu"), torch.Event) and torch.Event(device="cpu").device.type == "cpu"
    with pytest.raises(RuntimeError, match="recorded"):
        torch.Event(enable_timing=True).elapsed_time(last)


def test_the_accelerator_is_mps(device: VirtualDevice) -> None:
    accelerator = torch.accelerator
    assert accelerator.is_available() and accelerator.current_accelerator() == torch.device("mps")
    assert accelerator.current_device_index() == 0 and accelerator.device_count() == 1
    assert accelerator.current_stream() == torch.Stream() and accelerator.current_stream().device.type == "mps"
    accelerator.synchronize("mps")
    with pytest.raises(ValueError, match="cuda"):
        accelerator.synchronize("cuda")
    with pytest.raises(TypeError, match="float"):  # PyTorch's own checks stay
        torch.mps.set_per_process_memory_fraction(2)
    assert torch.mps.current_allocated_memory() < torch.mps.recommended_max_memory()
    pinned = torch.ones(2).pin_memory()  # is that of the CPU
    assert pinned.is_pinned() and pinned.device.type == "cpu" and not torch.ones(2).is_pinned()
