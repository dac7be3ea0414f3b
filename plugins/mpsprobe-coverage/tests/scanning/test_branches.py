"""Both sides of a branch that only values decide: which runs there are, what is merged, what reports say about it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import torch
from made_workloads import Made, calling, finding, scan, scan_many

from mpsprobe.doubts import GUESSED, LOOPED, TRIED, guesses, loops
from mpsprobe.protocols import RunOptions, TorchRun
from mpsprobe_coverage.knowledge.kernels.mps import load_table
from mpsprobe_coverage.recording.branches import MOST_RUNS, Site, Ways
from mpsprobe_coverage.scanning.tracing import Tracer

Asks = Callable[[Callable[[str], bool]], str | None]


def _ways(program: Asks) -> Ways:
    """The runs of ``program``, which asks by name, expects False, and returns what ends it."""
    ways = Ways()
    for chosen in ways:
        answers: dict[Site, bool] = {}

        def ask(name: str, chosen: Any = chosen, answers: dict[Site, bool] = answers) -> bool:
            return answers.setdefault(Site(name, 0), chosen.get(Site(name, 0), False))

        failure = program(ask)
        ways.add(answers, (), failure)
    return ways


def _independent(count: int) -> Asks:
    def program(ask: Callable[[str], bool]) -> None:
        for number in range(count):
            ask(str(number))

    return program


def _answers(ways: Ways) -> list[str]:
    return ["".join(f"{site.line}{int(answer)}" for site, answer in way.answers.items()) for way in ways.ways]


def test_every_way_is_taken_once_and_new_answers_come_first() -> None:
    def nested(ask: Callable[[str], bool]) -> None:
        if ask("a"):
            ask("b")
        ask("c")

    assert _answers(_ways(nested)) == ["a0c0", "a1b0c0", "a0c1", "a1b1c0", "a1b0c1", "a1b1c1"]
    assert _answers(_ways(lambda ask: None)) == [""] and _ways(lambda ask: None).notes() == []


def test_with_many_booleans_each_gets_both_answers_before_any_two_are_combined() -> None:
    six, ten = (_ways(_independent(count)) for count in (6, 10))
    assert len(six.ways) == len(ten.ways) == MOST_RUNS
    assert len(six.tried) == 6 and six.notes()[0].endswith("tried in 8 runs (the limit); not in every combination")
    assert len(ten.tried) == MOST_RUNS - 1 and ten.notes()[0].endswith("with one answer only: 3")


@pytest.mark.parametrize("runs", [set(some) - {None} for some in product(*([n, None] for n in range(4)))])
def test_a_condition_is_true_of_these_runs_and_of_no_other(runs: set[int]) -> None:
    ways = _ways(_independent(2))  # four runs: each pair of answers
    names = [{f"{site.line} is {str(value).lower()}" for site, value in way.answers.items()} for way in ways.ways]
    terms = [set(term.split(" and ")) for term in (ways.only_if(runs) or "").split(", or ") if term]
    fits = {number for number, literals in enumerate(names) if any(term <= literals for term in terms)}
    assert len(names) == 4 and fits == (runs if len(runs) < 4 else set())


def test_a_side_that_raises_is_named_and_the_other_one_kept() -> None:
    def raises(y: torch.Tensor) -> torch.Tensor:
        if (y < 0).any():
            raise ValueError("no negative numbers")
        return y.sin()

    report = scan(calling(raises), "2.13.0")
    at = f"test_branches.py:{raises.__code__.co_firstlineno + 1}"
    assert report.failure is None and finding(report, "sin").only_if is None
    (note,) = (note for note in report.workload.notes if "raises" in note)
    assert note.startswith("if ") and f"{at} is true, it raises ValueError" in note
    assert note.endswith(": no negative numbers")

    def passes(y: torch.Tensor) -> torch.Tensor:  # the side that is expected is the one that raises
        if not (y > 0).any():
            raise ValueError("none is positive")
        return y.sin()

    report = scan(calling(passes), "2.13.0")
    assert report.failure is None and finding(report, "sin").verdict == "native"
    assert "is false, it raises ValueError" in " ".join(report.workload.notes)


def test_operators_and_known_wrong_results_say_on_which_branch_they_are() -> None:
    def sides(y: torch.Tensor) -> Any:
        y = y.sin()
        if y.abs().max() > 1 and y.max() > 2:
            return torch.linalg.eigvals(y @ y.T).abs()
        return y.cos().sin()

    report = scan(calling(sides), "2.13.0")
    at = f"test_branches.py:{sides.__code__.co_firstlineno + 2}"
    eigvals, cos, sin = (finding(report, name) for name in ("_linalg_eigvals", "cos", "sin"))
    assert (eigvals.verdict, sin.only_if, cos.only_if.count(", or ")) == ("missing", None, 1)
    # Two questions of one line are kept apart by their columns; the second is asked only where the first is true.
    assert f"{at}:" in eigvals.only_if and eigvals.only_if.endswith(" is true") and " and " not in eigvals.only_if
    assert not guesses(report) and [one.assumed.partition(":")[0] for one in report.data_dependence] == [TRIED]
    assert report.summary.native_since is None
    of_many = scan_many(calling(sides), ["2.6.0", "2.13.0"])
    assert [cell.findings.get("aten::_linalg_eigvals") for cell in of_many.releases] == ["missing", "missing"]
    assert [one.only_if for one in of_many.findings] == [eigvals.only_if]


def test_what_every_layer_asks_is_one_question_and_counts_are_of_one_run() -> None:
    class Layer(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.tanh() if x.sum() > 1.5 else x.sin()

    layers = torch.nn.Sequential(torch.nn.Linear(4, 4), *(Layer() for _ in range(12)))
    report = scan(Made(lambda: TorchRun(layers, (torch.ones(2, 4),))), "2.13.0")
    tanh, linear = finding(report, "tanh"), finding(report, "linear")
    assert (tanh.calls, finding(report, "sin").calls, linear.calls) == (12, 12, 1)
    sin = finding(report, "sin")
    assert tanh.only_if and sin.only_if == tanh.only_if.replace("true", "false") and linear.only_if is None


@pytest.mark.parametrize("endless", [False, True])
def test_a_loop_whose_rounds_values_decide_runs_once_and_says_so(endless: bool) -> None:
    def until(y: torch.Tensor) -> torch.Tensor:
        while True:
            y = y.tanh()
            if (y < 1).any():
                return y

    def as_long_as(y: torch.Tensor) -> torch.Tensor:
        while y.sum() > 3:
            y = y.tanh()
        return y

    report = scan(calling(until if endless else as_long_as), "2.13.0")
    (loop,) = loops(report)
    assert loop.assumed.startswith(f"{LOOPED}, {TRIED}: `") and not guesses(report)
    tanh = finding(report, "tanh")
    assert (tanh.calls, bool(tanh.only_if)) == ((2, False) if endless else (1, True))


def test_memory_is_that_of_the_side_that_needs_more() -> None:
    def grows(y: torch.Tensor) -> torch.Tensor:
        return y.repeat(1000, 1).sin().sum() if y.max() > 1 else y

    memory = scan(calling(grows), "2.13.0").memory
    report = scan(calling(grows), "2.13.0")
    assert memory is not None and memory.peak_bytes > 2 * 1000 * 2 * 3 * 4
    assert any(note.startswith("memory is what the run needs if") for note in report.workload.notes)


def test_a_workload_that_asks_nothing_is_run_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []
    step = Tracer._step

    def counted(*some: Any, **how: Any) -> Any:
        made.append(how)
        return step(*some, **how)

    monkeypatch.setattr(Tracer, "_step", counted)
    run = calling(lambda y: y.sin()).build(RunOptions())
    Tracer(run, RunOptions()).trace(load_table("2.13.0"))
    assert len(made) == 1


def test_a_number_that_is_not_known_is_still_a_guess() -> None:
    report = scan(calling(lambda y: y * y.max().item()), "2.13.0")
    assert [one.assumed.startswith(GUESSED) for one in guesses(report)] == [True]
