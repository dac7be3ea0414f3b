"""The search for the first native release, against trying every release."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mpsprobe_coverage.judging.chain import Chain
from mpsprobe_coverage.kernels.mps import load_table
from mpsprobe_coverage.scanner.since import NativeRun, applies_to, native_since


def _run(release: str) -> NativeRun:
    return NativeRun(Chain(replace(load_table("2.13.0"), release=release)), {})


def _called(release: str, dtype: torch.dtype, *operators: str) -> NativeRun:
    return NativeRun(Chain(load_table(release)), dict.fromkeys(operators, frozenset({dtype})))


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


@pytest.mark.parametrize(
    ("operators", "release", "expected"),
    [
        ({"aten::cumsum"}, "2.0.0", True),
        ({"aten::cumsum"}, "1.13.1", False),
        ({"aten::copy_"}, "1.12.0", True),
        ({"aten::mul.Tensor", "aten::linalg_svd"}, "2.13.0", False),
        # Registered, but refused up to 2.2: "Conv3D is not supported on MPS".
        ({"aten::_mps_convolution"}, "2.2.2", False),
        ({"aten::_mps_convolution"}, "2.9.0", True),
        ({"torchvision::nms_of_tomorrow"}, "2.13.0", False),
    ],
)
def test_for_which_releases_a_run_speaks(operators: set[str], release: str, expected: bool) -> None:
    run = _called("2.13.0", torch.float32, *operators)
    assert applies_to(run, Chain(load_table(release))) is expected


def test_dtypes_and_autocast_count_too() -> None:
    bfloat16 = _called("2.13.0", torch.bfloat16, "aten::mul.Tensor")
    autocast = replace(_called("2.13.0", torch.float16, "aten::mul.Tensor"), autocast=True)
    assert [applies_to(bfloat16, Chain(load_table(release))) for release in ("2.2.2", "2.3.0")] == [False, True]
    assert [applies_to(autocast, Chain(load_table(release))) for release in ("2.4.1", "2.5.0")] == [False, True]
    assert not load_table("2.4.1").with_label("AutocastMPS")
