"""What programs do with tensors, generators and events of MPS in Python: onto the device, off it, and on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from expectations import TORCH_2_6

from mpsprobe_coverage.device import VirtualDevice
from mpsprobe_coverage.kernels.mps import load_table

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
