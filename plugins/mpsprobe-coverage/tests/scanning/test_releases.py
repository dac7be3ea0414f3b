"""The reports of many releases from one workload that is built once: each is the one that a run of its own gives."""

from __future__ import annotations

import functools
import random
from types import SimpleNamespace
from typing import Any

import numpy
import pytest
import torch
from made_workloads import Calls, Made, calling, calls, scan, scan_many

from mpsprobe.protocols import RunOptions, TorchRun
from mpsprobe_coverage.scanning.scan import memory_sizes, release_answers
from mpsprobe_devkit.testing import FakeProgress
from tests.thorough import all_but

RELEASES = ["1.12.1", "1.13.1", "2.0.0", "2.4.1", "2.13.0"]


def attention(y: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.scaled_dot_product_attention(y[None, None], y[None, None], y[None, None]).cumsum(0)


def some_of_it(y: torch.Tensor) -> torch.Tensor:
    return torch.unique(y).sin() + torch.nonzero(y.flatten()).sum()


def more_than_is_shown(y: torch.Tensor) -> torch.Tensor:
    """Calls of one operator, before and after what takes other releases another way."""
    for size in range(1, 6):
        torch.histc(y.new_zeros(size))
    for size in range(6, 12):
        torch.histc(attention(y).new_zeros(size))
    return y.sin()


def failing(y: torch.Tensor) -> torch.Tensor:
    raise ValueError(f"after {y.sin().shape}")


EACH = [
    (one, phase) for one in (attention, some_of_it, more_than_is_shown, failing) for phase in ("inference", "training")
]
USUAL = [(attention, "inference"), (some_of_it, "training")]


@pytest.mark.parametrize(("function", "phase"), all_but(lambda *case: case in USUAL, EACH))
def test_each_report_is_that_of_a_run_for_itself(function: Any, phase: str) -> None:
    loss: Any = (lambda output: output.sum()) if phase == "training" else None
    workload = calling(function, loss=loss)
    answers = release_answers(workload, RunOptions(phase=phase), RELEASES, FakeProgress())
    assert [*answers] == RELEASES
    for release, answer in answers.items():
        assert answer.report == scan(workload, release, phase=phase)
    assert answers["2.13.0"].report.memory is not None


@functools.lru_cache
def centres(size: int, device: torch.device) -> torch.Tensor:
    return torch.ones(size, device=device).tan()


class NotLoaded:
    """A global as programs have for packages that they load late, and that may be missing."""

    def __getattr__(self, name: str) -> Any:
        raise ImportError(name)


package = NotLoaded()


class Remembering(Calls):
    """Computes in its first call what it looks up in every later one, as some encoders of classes do."""

    def __init__(self) -> None:
        super().__init__()
        self.known = SimpleNamespace(results=[])

    @staticmethod
    @functools.lru_cache(maxsize=4)  # as transformers keeps the encodings of positions
    def angles(size: int, device: torch.device) -> torch.Tensor:
        return torch.ones(size, device=device).cos()

    def forward(self, x: torch.Tensor) -> Any:
        if not self.known.results:
            self.known.results.append(super().forward(x).sin())
        return self.known.results[0].exp() + self.angles(1, x.device) + centres(1, x.device)


def test_every_run_is_the_first_one_of_the_model() -> None:
    made = Made(lambda: TorchRun(Remembering(), (torch.ones(2, 4),), loss=torch.sum))
    answers = release_answers(made, RunOptions(phase="training"), RELEASES[1::2], FakeProgress())
    for release, answer in answers.items():
        assert answer.report == scan(made, release, phase="training")
        assert answer.report.failure is None and {"sin", "cos", "tan"} <= calls(answer.report, "forward").keys()


def by_chance(y: torch.Tensor) -> torch.Tensor:
    """As models of speech drop layers in training, by whichever library they draw numbers."""
    for number in (random.random(), float(numpy.random.rand()), torch.rand(()).item()):
        y = y.sin() if number < 0.5 else y.cos()
    return y


def test_what_a_model_draws_is_the_same_in_every_run() -> None:
    one, other = (scan(calling(by_chance), "2.13.0") for _ in range(2))
    assert one == other
    answers = release_answers(calling(by_chance), RunOptions(), RELEASES, FakeProgress()).values()
    drawn = [calls(answer.report, "forward").get("sin", 0) for answer in answers]
    assert drawn == [calls(one, "forward").get("sin", 0)] * len(RELEASES)


def test_the_generators_of_the_program_go_on_as_before() -> None:
    before = random.getstate(), torch.get_rng_state()
    scan(calling(by_chance), "2.13.0")
    assert random.getstate() == before[0] and bool((torch.get_rng_state() == before[1]).all())


def test_what_a_release_needs_is_the_same_where_another_was_run_before() -> None:
    alone = [scan(calling(), release, memory=2**33) for release in RELEASES[1::2]]
    together = scan_many(calling(), RELEASES[1::2], memory=2**33).releases
    assert [cell.fit for cell in together] == [one.memory and one.memory.fit for one in alone]


def test_where_it_fits_is_answered_for_every_memory_that_was_sold() -> None:
    class Large(Calls):
        def forward(self, x: torch.Tensor) -> Any:
            return super().forward(x).new_zeros(3 * 2**30)  # 12 GiB

    made = Made(lambda: TorchRun(Large(), (torch.ones(2, 4),)))
    answer = release_answers(made, RunOptions(), ["2.13.0"], FakeProgress())["2.13.0"]
    assert [*answer.fits] == memory_sizes()
    assert answer.fits[2**33] == "raises" and answer.fits[128 * 2**30] == "fits"
    for size in (2**33, 2**34, 2**37):
        memory = scan(made, "2.13.0", memory=size).memory
        assert memory is not None and memory.fit is not None and memory.fit.answer == answer.fits[size]
