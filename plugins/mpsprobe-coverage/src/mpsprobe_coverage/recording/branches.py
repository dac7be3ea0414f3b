"""Both sides of a branch that only values decide: what a run answers, which further runs there are, what each shows.

A run without values answers a boolean that it cannot know the same at each ask of one place. Then it is run again with
the other answer, which may lead to further places, until all ways through them were taken or ``MOST_RUNS`` are made. A
workload that asks nothing is run once, as ever. Imports no torch.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from types import FrameType
from typing import TYPE_CHECKING, NamedTuple

from mpsprobe.doubts import GUESSED, LOOPED, TRIED

if TYPE_CHECKING:
    from mpsprobe.schemas import RunFailure

MOST_RUNS = 8
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


class Site(NamedTuple):
    """Where a program asks: the line as reports name it, and the column, as one line may ask twice."""

    line: str
    column: int


@dataclass(slots=True)
class Branches:
    """The answers of one run. ``chosen`` are those that differ from what is expected; ``named`` names a line."""

    named: Callable[[str, int], str]
    chosen: Mapping[Site, bool] = field(default_factory=dict)
    taken: dict[Site, bool] = field(default_factory=dict)  # in the order of the run, the first of each place
    once: set[Site] = field(default_factory=set)  # places in a ``while`` that would not have ended by one answer
    _last: dict[object, bool] = field(default_factory=dict)

    def answer(self, expected: bool, frame: FrameType, module: str | None) -> bool:
        """What the line that ``frame`` runs in ``module`` gets; ``expected`` where nothing was chosen.

        A ``while`` that asks again in its second round gets the other answer, so that it ends.
        """
        code, line = frame.f_code, frame.f_lineno
        position = next(islice(code.co_positions(), frame.f_lasti // 2, None), (None,) * 4)
        site = Site(self.named(code.co_filename, line), position[2] or 0)
        answer = self.chosen.get(site, expected)
        self.taken.setdefault(site, answer)
        if line in _lines_of_while(code.co_filename):
            called_by = (site, module, *((caller.f_code, caller.f_lasti) for caller in _up(frame.f_back)))
            if called_by in self._last:
                answer = not self._last[called_by]
                self.once.add(site)
            self._last[called_by] = answer
        return answer


def _up(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


@lru_cache(maxsize=256)
def _lines_of_while(file: str) -> Collection[int]:
    """The lines of ``file`` whose innermost loop, in their own function, is a ``while``."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return ()
    lines: set[int] = set()
    for node in ast.walk(tree):  # outer nodes come before inner ones
        if isinstance(node, (*_LOOPS, *_SCOPES)):
            inside = range(node.lineno, (node.end_lineno or node.lineno) + 1)
            lines.update(inside) if isinstance(node, ast.While) else lines.difference_update(inside)
    return frozenset(lines)


class Way(NamedTuple):
    """What one run answered, and what ended it, if anything did."""

    answers: Mapping[Site, bool]
    failure: str | None


def ended_by(failure: RunFailure | None) -> str | None:
    """``it raises ValueError at model.py:7: no such shape``."""
    if failure is None:
        return None
    at = f" at {failure.call_site}" if failure.call_site else ""
    return f"it raises {failure.error}{at}: {failure.message}"


class Ways:
    """The runs of one workload, as their answers are known. Iterated, it gives what to choose in the next run.

    What a run answered is given to ``add`` before the next is asked for. ``goes_on``: whether there is time for one.
    """

    def __init__(self, goes_on: Callable[[], bool] = lambda: True) -> None:
        self._goes_on = goes_on
        self.ways: list[Way] = []
        self.once: set[Site] = set()
        self._queue: list[dict[Site, bool]] = [{}]
        self._chosen: dict[Site, bool] = {}

    def __iter__(self) -> Iterator[Mapping[Site, bool]]:
        """First answers that no run has given, then what is left of their combinations."""
        while self._queue and len(self.ways) < MOST_RUNS and self._goes_on():
            seen = self._seen()
            new = (answers for answers in self._queue if not answers or [*answers.items()][-1] not in seen)
            self._chosen = next(new, self._queue[0])
            self._queue.remove(self._chosen)
            yield self._chosen

    def add(self, answers: Mapping[Site, bool], once: Collection[Site], failure: str | None) -> None:
        """What the run with what was chosen last answered; ``failure`` is what ended it."""
        self.ways.append(Way(dict(answers), failure))
        self.once |= {*once}
        sites = [*answers]
        latest = max((sites.index(site) for site in self._chosen if site in answers), default=-1)
        self._queue += [self._chosen | {site: not answers[site]} for site in sites[latest + 1 :]]

    @property
    def main(self) -> int:
        """The run that the others are compared with: the first that came to its end."""
        return next((number for number, way in enumerate(self.ways) if way.failure is None), 0)

    @property
    def tried(self) -> set[str]:
        """Lines that got both answers."""
        seen = self._seen()
        return {site.line for site, answer in seen if (site, not answer) in seen}

    def only_if(self, numbers: Collection[int]) -> str | None:
        """What is true of the runs ``numbers`` and of no other that came to its end; ``None``: those are all that did.

        ``model.py:6 is true and model.py:9 is false, or model.py:12 is true``.
        """
        others = [way for number, way in enumerate(self.ways) if way.failure is None and number not in numbers]
        terms: list[dict[Site, bool]] = []
        for number in sorted(numbers) if others else ():
            way = dict(self.ways[number].answers)
            if any(term.items() <= way.items() for term in terms):
                continue
            for site in reversed([*way]):
                fewer = {place: answer for place, answer in way.items() if place != site}
                if not any(fewer.items() <= other.answers.items() for other in others):
                    way = fewer
            terms.append(way)
        names = ([f"{self._name(site)} is {str(answer).lower()}" for site, answer in term.items()] for term in terms)
        return ", or ".join(map(" and ".join, names)) or None

    def said(self, taken: str, line: str = "") -> str:
        """What became of the answer ``taken as False`` at ``line``."""
        if taken not in (f"{GUESSED}{False}", f"{GUESSED}{True}"):
            return taken
        looped = line in {site.line for site in self.once}
        return f"{LOOPED}, " * looped + (TRIED if line in self.tried else taken)

    def notes(self) -> list[str]:
        """Which answers end the run, and what was left out."""
        failures: dict[str, list[int]] = {}
        for number, way in enumerate(self.ways):
            if way.failure is not None and self.ways[self.main].failure is None:
                failures.setdefault(way.failure, []).append(number)
        said = [f"if {self.only_if(runs)}, {failure}" for failure, runs in failures.items()]
        if self._queue and self.ways:
            seen = self._seen()
            lone = sum((site, not answer) not in seen for site, answer in seen)
            rest = f"with one answer only: {lone}" if lone else "not in every combination"
            number = len({site for site, _ in seen})
            runs = "1 run" if len(self.ways) == 1 else f"{len(self.ways)} runs"
            said.append(f"booleans that only values decide: {number}, tried in {runs} (the limit); {rest}")
        return said

    def _seen(self) -> set[tuple[Site, bool]]:
        return {item for way in self.ways for item in way.answers.items()}

    def _name(self, site: Site) -> str:
        several = {answer for way in self.ways for answer in way.answers if answer.line == site.line}
        return site.line if len(several) == 1 else f"{site.line}:{site.column + 1}"
