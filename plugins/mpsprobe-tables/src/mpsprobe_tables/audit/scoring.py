"""Precision and recall, as ``docs/explanation/audit.md`` prints them.

Universe
    The tests that PyTorch runs in the release and does not skip, of entries that the installed torch has too.
Positive
    Expected to fail, by any list but those that say wrong numbers (``judging.WRONG_NUMBERS``). Where numbers decide, a
    test counts neither as missed nor as falsely predicted, whatever was predicted.
Predicted
    In the reading *outcome of the test*: refused, or the reference raises, or (gradients) random numbers decide. In the
    reading *verdict of the device*: refused, over the tests whose reference works.

Recall is the share of the positive that are predicted, precision the share of the predicted that are positive; a share
of nothing is 1. Tests that a line of the table of exceptions names, with its evidence, are left out and shown apart.
"""

from __future__ import annotations

import functools
import itertools
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from importlib.resources import files

from packaging.specifiers import SpecifierSet

from mpsprobe.errors import TableError
from mpsprobe_tables.audit.entries import entries
from mpsprobe_tables.audit.judging import Judged, by_test
from mpsprobe_tables.expectations import ALL, Expectations

MOST_LINES = 15


@dataclass(frozen=True, slots=True)
class ExceptionLine:
    """One line of the table."""

    entries: tuple[str, ...]  # keys of OpInfo entries that share the cause
    dtypes: tuple[str, ...]  # their names; empty for all
    test: str  # ``forward`` or ``gradient``
    lists: tuple[str, ...]  # those that name them; ``decorators`` is at the entry itself
    releases: str  # a specifier, ``>=2.11``; empty for all
    what: str  # what it really is, in a few words
    evidence: str  # where that is said or how it shows

    def holds(self, judged: Judged, release: str) -> bool:
        """Whether the test that was judged is one of those."""
        return (
            judged.entry in self.entries
            and (not self.dtypes or judged.dtype in self.dtypes)
            and judged.gradient == (self.test == "gradient")
            and not set(self.lists).isdisjoint(judged.lists)
            and SpecifierSet(self.releases).contains(release)
        )


@functools.cache
def exception_lines() -> tuple[ExceptionLine, ...]:
    """The committed table. Raises TableError: it is damaged."""
    text = (files("mpsprobe_tables.audit") / "exceptions.toml").read_text(encoding="utf-8")
    try:
        return tuple(
            ExceptionLine(
                tuple(line["entries"]),
                tuple(line.get("dtypes", ())),
                line.get("test", "forward"),
                tuple(line["lists"]),
                line.get("torch", ""),
                line["what"],
                line["evidence"],
            )
            for line in tomllib.loads(text).get("exception", ())
        )
    except (tomllib.TOMLDecodeError, KeyError, TypeError) as error:
        raise TableError(f"the table of exceptions of the audit is damaged: {error}") from error


UNIMPLEMENTED = "UNIMPLEMENTED_XFAILLIST"


@dataclass(frozen=True, slots=True)
class Score:
    """Counts of tests."""

    hits: int = 0  # expected to fail, and predicted
    missed: int = 0  # expected to fail, and not predicted
    false: int = 0  # predicted, and expected to pass
    quiet: int = 0  # neither
    numbers: int = 0  # those that fail by wrong numbers, whatever was predicted

    @property
    def tests(self) -> int:
        """All of them."""
        return self.hits + self.missed + self.false + self.quiet + self.numbers

    @property
    def failing(self) -> int:
        """Those expected to fail, for want of a kernel."""
        return self.hits + self.missed

    @property
    def recall(self) -> float:
        """From 0 to 1."""
        return self.hits / (self.hits + self.missed) if self.hits + self.missed else 1.0

    @property
    def precision(self) -> float:
        """From 0 to 1."""
        return self.hits / (self.hits + self.false) if self.hits + self.false else 1.0


@dataclass(frozen=True, slots=True)
class ListScore:
    """What was predicted of the tests that one list names: how many of which outcome."""

    tests: int
    refused: int
    raises: int
    random: int
    runs: int


@dataclass(frozen=True)
class Scores:
    """The figures of one release in one mode (with or without the neighbouring lists)."""

    # outcome, device: row (a dtype, or ``gradient float32``) → score, in the two readings of the module's docstring
    outcome: Mapping[str, Score]
    device: Mapping[str, Score]
    lists: Mapping[str, ListScore]  # name of a list → what was predicted of its tests
    # Entries listed as unimplemented with no dtype restriction → whether each test of them that the reference can
    # compute is refused.
    unimplemented: Mapping[str, bool]
    refused_float32: Sequence[str]  # entries that pass in float32 and are refused
    # The line of the table → tests that it takes out.
    excepted: Mapping[ExceptionLine, Sequence[Judged]] = field(default_factory=dict)
    judged: Sequence[Judged] = ()  # the tests that count

    @property
    def disagreements(self) -> list[Judged]:
        """Tests whose predicted outcome is not the expected one."""
        return [test for test in self.judged if not test.agrees]


def scores(judged: Iterable[Judged], expectations: Expectations, exceptions: Sequence[ExceptionLine]) -> Scores:
    """All figures of one release."""
    excepted: dict[ExceptionLine, list[Judged]] = {}
    counted: list[Judged] = []
    for test in judged:
        line = next((line for line in exceptions if line.holds(test, expectations.release)), None)
        if line is None:
            counted.append(test)
        else:
            excepted.setdefault(line, []).append(test)
    rows = by_test(counted)
    return Scores(
        outcome={row: _score(them) for row, them in rows.items()},
        device={row: _score_of_device(them) for row, them in rows.items()},
        lists=_lists(rows),
        unimplemented=_unimplemented(counted, expectations),
        refused_float32=sorted(row.entry for row in rows.get("float32", ()) if row.expected == "pass" and row.refused),
        excepted=excepted,
        judged=[one for them in rows.values() for one in them],
    )


@dataclass(frozen=True, slots=True)
class LeftToNumbers:
    """Tests of one dtype that are left out because their reference is not whole, and what they would do to its row."""

    # failing, passing: how many of them the lists expect to fail, and to pass
    failing: int
    passing: int
    # as_failures, as_passes: the row, if each of them counted as predicted to fail, or to pass
    as_failures: Score
    as_passes: Score


def left_to_numbers(judged: Iterable[Judged]) -> dict[str, LeftToNumbers]:
    """Row → what is left out of it although no list says wrong numbers."""
    numbers = {}
    for row, them in by_test(judged).items():
        left = [test for test in them if test.expected == "numbers" and test.listed != "numbers"]
        if left:
            rest = [(test.expected, test.predicted) for test in them if test not in left]
            numbers[row] = LeftToNumbers(
                failing=sum(test.listed == "kernel" for test in left),
                passing=sum(test.listed == "pass" for test in left),
                as_failures=_count([*rest, *((test.listed, True) for test in left)]),
                as_passes=_count([*rest, *((test.listed, False) for test in left)]),
            )
    return numbers


def total(found: Iterable[Score]) -> Score:
    """The sum of several rows."""
    return Score(*map(sum, zip(*map(astuple, found), strict=True)))


def _score(judged: Iterable[Judged]) -> Score:
    return _count((test.expected, test.predicted) for test in judged)


def _score_of_device(judged: Iterable[Judged]) -> Score:
    return _count((test.expected, test.refused) for test in judged if test.reference_works and test.outcome != "random")


def _count(pairs: Iterable[tuple[str, bool]]) -> Score:
    counts = Counter(pairs)
    return Score(
        hits=counts["kernel", True],
        missed=counts["kernel", False],
        false=counts["pass", True],
        quiet=counts["pass", False],
        numbers=counts["numbers", True] + counts["numbers", False],
    )


def _lists(rows: Mapping[str, Sequence[Judged]]) -> dict[str, ListScore]:
    named: dict[str, Counter[str]] = {}
    for row in itertools.chain(*rows.values()):
        for name in row.lists:
            named.setdefault(name, Counter())[row.outcome] += 1
    return {
        name: ListScore(
            counts.total(),
            counts["refused"],
            counts["reference raises"],
            counts["random"],
            counts["runs"] + counts["internal error"],
        )
        for name, counts in sorted(named.items())
    }


def _unimplemented(judged: Iterable[Judged], expectations: Expectations) -> dict[str, bool]:
    listed = {entry for entry, dtypes in expectations.of(f"forward {UNIMPLEMENTED}").items() if dtypes == ALL}
    verdicts: dict[str, bool] = {}
    for test in judged:
        if test.entry in listed and test.entry in entries() and not test.gradient and test.reference_works:
            verdicts[test.entry] = verdicts.get(test.entry, True) and test.refused
    return dict(sorted(verdicts.items()))
