"""Generators, states and events of MPS can be made and used while the device is open, and are gone afterwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from mpsprobe_coverage.device import VirtualDevice

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
