"""Generators, states and events of MPS can be made and used while the device is open, and are gone afterwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from mpsprobe_coverage.device import VirtualDevice

_DRAWS: dict[str, Callable[[torch.Generator], Any]] = {
    "rand": lambda g: torch.rand(3, device="mps", generator=g),
    "randn": lambda g: torch.randn((2, 2), generator=g, device="mps"),
    "randint": lambda g: torch.randint(5, (3,), device="mps", generator=g),
    "randperm": lambda g: torch.randperm(5, device="mps", generator=g),
    "uniform_": lambda g: torch.empty(3, device="mps").uniform_(generator=g),
    "bernoulli": lambda g: torch.bernoulli(torch.full((3,), 0.5, device="mps"), generator=g),
    "multinomial": lambda g: torch.multinomial(torch.ones(4, device="mps"), 2, generator=g),
}


@pytest.mark.parametrize("draw", _DRAWS)
@pytest.mark.parametrize("where", ["mps", "mps:0", torch.device("mps")])
def test_a_generator_of_the_device_draws(device: VirtualDevice, draw: str, where: Any) -> None:
    generator = torch.Generator(device=where).manual_seed(3)
    assert generator.device == torch.device("mps", 0) and isinstance(generator, torch.Generator)
    with device.recording("forward"):
        made = _DRAWS[draw](generator)
    assert made.device.type == "mps"
    assert {r.judgement.verdict for r in device.recorder.calls()} == {"native"}


def test_a_generator_of_the_cpu_stays_one(device: VirtualDevice) -> None:
    generator = torch.Generator().manual_seed(1)
    assert generator.device.type == "cpu" and isinstance(generator, torch.Generator)
    expected = torch.Generator("cpu").manual_seed(1)
    assert torch.rand(3, generator=generator).tolist() == torch.rand(3, generator=expected).tolist()


def test_the_default_generator_has_a_state(device: VirtualDevice) -> None:
    torch.mps.manual_seed(7)
    state = torch.mps.get_rng_state()
    assert state.dtype is torch.uint8 and state.device.type == "cpu"
    torch.manual_seed(8)  # seeds every device
    assert not torch.equal(torch.mps.get_rng_state(), state)
    torch.mps.set_rng_state(state)
    assert torch.equal(torch.mps.get_rng_state(), state)
    torch.mps.seed()
    assert not torch.equal(torch.mps.get_rng_state(), state)


def test_a_fork_of_the_random_state_puts_it_back(device: VirtualDevice) -> None:
    before = torch.mps.get_rng_state()
    with torch.random.fork_rng(device_type="mps"):
        torch.mps.manual_seed(5)
        assert not torch.equal(torch.mps.get_rng_state(), before)
    assert torch.equal(torch.mps.get_rng_state(), before)


def test_a_checkpoint_keeps_the_random_state(device: VirtualDevice) -> None:
    linear = device.move(torch.nn.Linear(3, 3))
    x = torch.rand(2, 3, device="mps", requires_grad=True)
    out = checkpoint(lambda y: torch.nn.functional.dropout(linear(y)), x, use_reentrant=False)
    assert tuple(torch.autograd.grad(out.sum(), x)[0].shape) == (2, 3)


def test_a_copied_generator_is_one_of_the_device(device: VirtualDevice) -> None:
    generator = torch.Generator("mps").manual_seed(2)
    copied = generator.clone_state()
    assert copied is not generator and copied.device.type == "mps"
    assert torch.equal(copied.get_state(), generator.get_state())


def test_events_have_happened(device: VirtualDevice) -> None:
    start, end = torch.mps.Event(enable_timing=True), torch.mps.Event(enable_timing=True)
    for event in (start, end):
        event.record()
        event.wait()
        event.synchronize()
    assert start.query() and start.elapsed_time(end) >= 0.0


def test_events_of_the_accelerator(device: VirtualDevice) -> None:
    start, end = (torch.Event(device="mps", enable_timing=True, blocking=True) for _ in range(2))
    start.record()
    torch.Stream(device="mps").record_event(end)
    assert start.elapsed_time(end) >= 0 and isinstance(start, torch.Event) and start.device.type == "mps"
    assert isinstance(torch.Event(device="cpu"), torch.Event) and torch.Event(device="cpu").device.type == "cpu"
    with pytest.raises(RuntimeError, match="recorded"):
        torch.Event(enable_timing=True).elapsed_time(end)


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


def test_pinned_memory_is_that_of_the_cpu(device: VirtualDevice) -> None:
    pinned = torch.ones(2).pin_memory()
    assert pinned.is_pinned() and pinned.device.type == "cpu" and not torch.ones(2).is_pinned()
