"""The search for the first native release, against trying every release."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from made_workloads import calling, scan, scan_many

from mpsprobe_coverage.devices.virtual import VirtualDevice
from mpsprobe_coverage.knowledge.judging.chain import Chain
from mpsprobe_coverage.knowledge.kernels.mps import load_table
from mpsprobe_coverage.knowledge.kernels.releases import torch_releases
from mpsprobe_coverage.recording.release_questions import Asked
from mpsprobe_coverage.scanning.since import NativeRun, applies_to, native_since
from tests.thorough import all_but


def _run(release: str) -> NativeRun:
    chain = Chain(replace(load_table("2.13.0"), release=release))
    return NativeRun(chain, {}, Asked(chain))


def _called(function: Callable[[torch.Tensor], Any], dtype: torch.dtype, release: str) -> NativeRun:
    with VirtualDevice(load_table(release)) as device:
        moved = device.move(torch.ones(3, 3, dtype=dtype))
        with device.recording("forward"):
            function(moved)
    return NativeRun(device.chain, device.calls(), device.asked)


def _by_trying_all(native: list[bool]) -> str | None:
    first = len(native)
    while first and native[first - 1]:
        first -= 1
    return f"r{first}" if first < len(native) else None


@st.composite
def _histories(draw: st.DrawFn) -> tuple[list[bool], set[tuple[str, str]], int]:
    """Which releases are native, which runs truly speak for which release, and which release is known already."""
    native = draw(st.lists(st.booleans(), min_size=1, max_size=9))
    count = len(native)
    pairs = [(f"r{i}", f"r{j}") for i in range(count) for j in range(count) if native[i] and native[j]]
    speaks = {pair for pair in pairs if pair[0] == pair[1] or draw(st.booleans())}
    return native, speaks, draw(st.integers(0, count - 1))


@given(_histories())
def test_it_finds_what_trying_every_release_finds(
    history: tuple[list[bool], set[tuple[str, str]], int],
) -> None:
    native, speaks, known_at = history
    releases = [f"r{i}" for i in range(len(native))]
    traced: list[str] = []

    def trace(release: str) -> NativeRun | None:
        traced.append(release)
        return _run(release) if native[int(release[1:])] else None

    known = (releases[known_at], _run(releases[known_at]) if native[known_at] else None)
    found = native_since(releases, trace, lambda run, release: (run.chain.table.release, release) in speaks, known)
    assert found == _by_trying_all(native)
    assert len(traced) == len(set(traced)), "no release is run twice"
    assert known[0] not in traced


def test_one_run_is_enough_where_it_speaks_for_all() -> None:
    traced: list[str] = []
    found = native_since(["a", "b", "c"], lambda r: traced.append(r), lambda *_: True, ("c", _run("c")))
    assert (found, traced) == ("a", [])


def _conv3d(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.conv3d(x[None, None, None], x[None, None, None])


def _nll_loss(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.nll_loss(x, x.new_zeros(len(x), dtype=torch.int64))


@pytest.mark.parametrize(
    ("function", "dtype", "release", "expected"),
    [
        (lambda x: x.cumsum(0), torch.float32, "2.0.0", True),
        (lambda x: x.cumsum(0), torch.float32, "1.13.1", False),
        (lambda x: x.clone().copy_(x), torch.float32, "1.12.0", True),
        # Registered, but refused up to 2.2: "Conv3D is not supported on MPS".
        (_conv3d, torch.float32, "2.2.2", False),
        (_conv3d, torch.float32, "2.9.0", True),
        # Whole numbers are refused there as the input, not as the labels.
        (_nll_loss, torch.float32, "2.15.0", True),
        # Made of others above autograd, where a call is not seen; it falls back there.
        (lambda x: x.repeat_interleave(2, 0), torch.float32, "1.13.1", False),
        # It has a kernel, and is made of others there.
        (lambda x: x.isneginf(), torch.float32, "2.5.1", False),
        (lambda x: x * x, torch.bfloat16, "2.3.0", True),
        (lambda x: x * x, torch.bfloat16, "2.2.2", False),
    ],
)
def test_for_which_releases_a_run_speaks(
    function: Callable[[torch.Tensor], Any], dtype: torch.dtype, release: str, expected: bool
) -> None:
    assert applies_to(_called(function, dtype, "2.13.0"), Chain(load_table(release))) is expected


def test_a_run_says_nothing_of_a_release_that_calls_something_else_there() -> None:
    """Attention without gradients is one operator from 2.5.0 on, which no run on an older release meets."""

    def attends(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.scaled_dot_product_attention(x[None], x[None], x[None])

    run = _called(attends, torch.float32, "2.4.1")
    assert applies_to(run, Chain(load_table("2.4.0")))
    assert not applies_to(run, Chain(load_table("2.13.0")))


def test_autocast_counts_too() -> None:
    autocast = replace(_called(lambda x: x * x, torch.float16, "2.13.0"), autocast=True)
    assert [applies_to(autocast, Chain(load_table(release))) for release in ("2.4.1", "2.5.0")] == [False, True]
    assert not load_table("2.4.1").with_label("AutocastMPS")


def _attends(y: torch.Tensor) -> torch.Tensor:
    heads = y.expand(1, 2, 2, 3)
    return torch.nn.functional.scaled_dot_product_attention(heads, heads, heads, torch.ones(2, 2, device=y.device) > 0)


def _large(y: torch.Tensor) -> torch.Tensor:
    return torch.ones(1 << 16, 1 << 16, device=y.device) * y.sum()


def _large_volume(y: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.conv3d(y.expand(1, 1, 1 << 21, 3, 1 << 10), y.sum().expand(1, 1, 1, 1, 1))


@pytest.mark.parametrize(
    "function",
    all_but(lambda one: one is _nll_loss, [_attends, _nll_loss, lambda y: y.isneginf() * y, _large, _large_volume]),
)
def test_it_finds_what_runs_on_every_release_find(function: Callable[[torch.Tensor], Any]) -> None:
    workload = calling(function, loss=lambda result: result.sum())
    every = scan_many(workload, [*torch_releases()], phase="training")
    assert scan(workload, "2.13.0", phase="training").summary.native_since == every.native_since


def test_a_run_with_large_tensors_speaks_for_other_releases_too() -> None:
    runs = []

    def function(y: torch.Tensor) -> torch.Tensor:
        runs.append(y)
        return _large(y)

    assert scan(calling(function), "2.13.0").summary.native_since is not None
    assert len(runs) <= 2, "there, and on the first release where it is not native"


def test_calls_are_kept_without_what_their_tensors_hold() -> None:
    with VirtualDevice(load_table("2.13.0")) as device:
        moved = device.move(torch.arange(6)).requires_grad_(False)
        with device.recording("forward"):
            (moved + moved).sum()
    tensors = [tensor for calls in device.calls().values() for call in calls for tensor in call.args]
    assert tensors and all(tensor.shadow is None for tensor in tensors if isinstance(tensor, torch.Tensor))


def test_a_run_of_the_search_ends_at_the_first_call_that_is_not_native() -> None:
    releases: list[bool] = []

    def function(y: torch.Tensor) -> torch.Tensor:
        releases.append(False)
        try:
            summed = y.cumsum(0)
        except Exception:  # noqa: BLE001 - a program that catches what it can
            summed = y
        releases[-1] = True
        return summed

    assert scan(calling(function), "2.13.0").summary.native_since == "2.0.0"
    assert releases == [True, False]
