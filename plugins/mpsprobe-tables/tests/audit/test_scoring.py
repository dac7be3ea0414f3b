"""Figures of made-up runs, counted by hand."""

from __future__ import annotations

from dataclasses import replace

from made_pairs import RELEASE, UNDEFINED, UNIMPLEMENTED, expectations, pair, seen

from mpsprobe_tables.audit.exceptions import ExceptionLine
from mpsprobe_tables.audit.judging import judge
from mpsprobe_tables.audit.running import Pair
from mpsprobe_tables.audit.scoring import Score, Scores, left_to_numbers, scores, total

MISSING = seen("aten::linalg_eig", "missing")
NATIVE = seen()
EXPECTED = expectations(
    {UNIMPLEMENTED: {"abs": None, "exp": None, "sin": None}, UNDEFINED: {"tan": None, "tanh": None}}
)


def _scores(pairs: list[Pair], *lines: ExceptionLine) -> Scores:
    return scores(judge(pairs, EXPECTED, "none"), EXPECTED, lines)


PAIRS = [
    pair("abs", MISSING, dtype="int32"),  # hit
    pair("exp", NATIVE, dtype="int32", forward="sample 0: no"),  # hit by the reference
    pair("sin", NATIVE, dtype="int32"),  # missed
    pair("cos", MISSING, dtype="int32"),  # false
    pair("sqrt", NATIVE, dtype="int32"),  # quiet
    pair("tan", MISSING, dtype="int32"),  # wrong numbers, refused
    pair("tanh", NATIVE, dtype="int32"),  # wrong numbers
]


def test_the_outcome_of_the_test() -> None:
    found = _scores(PAIRS)
    score = found.outcome["int32"]
    assert score == Score(hits=2, missed=1, false=1, quiet=1, numbers=2, numbers_predicted=1)
    assert (score.tests, round(score.recall, 3), round(score.precision, 3)) == (7, 0.667, 0.667)
    # The verdict alone leaves out what no device passes.
    assert found.device["int32"] == Score(hits=1, missed=1, false=1, quiet=1, numbers=2, numbers_predicted=1)
    listed = found.lists[UNIMPLEMENTED]
    assert (listed.tests, listed.refused, listed.raises, listed.runs, round(listed.recall, 3)) == (3, 1, 1, 1, 0.667)
    assert sorted(one.entry for one in found.disagreements) == ["cos", "sin"]


def test_a_share_of_nothing_is_whole() -> None:
    assert (Score().recall, Score().precision, total([]).tests) == (1.0, 1.0, 0)
    assert total([Score(hits=1, false=2), Score(hits=3, missed=1)]) == Score(hits=4, missed=1, false=2)


def test_the_two_figures() -> None:
    pairs = [pair("abs", MISSING), pair("abs", NATIVE, dtype="int32"), pair("exp", MISSING), pair("cos", MISSING)]
    found = _scores([*pairs, pair("sin", NATIVE, forward="sample 0: no")])
    assert found.unimplemented == {"abs": False, "exp": True}
    assert found.refused_float32 == ["cos"]


def test_an_exception_takes_a_test_out() -> None:
    line = ExceptionLine(("sin", "cos"), ("int32",), "forward", (UNIMPLEMENTED,), "", "numbers", "a comment")
    found = _scores(PAIRS, line)
    assert found.outcome["int32"] == Score(hits=2, false=1, quiet=1, numbers=2, numbers_predicted=1)
    assert [one.entry for one in found.excepted[line]] == ["sin"], "cos stands in no list, so it is not excused"
    for other in ({"dtypes": ("bool",)}, {"test": "gradient"}, {"releases": f"<{RELEASE}"}):
        assert not _scores(PAIRS, replace(line, **other)).excepted  # type: ignore[arg-type]


def test_what_is_left_to_numbers_is_told_with_what_it_would_give() -> None:
    left = {"forward": "sample 0: no", "upcast": True, "exact": False, "dtype": "bool"}
    pairs = [pair("sin", MISSING, dtype="bool"), pair("exp", NATIVE, **left), pair("cos", NATIVE, **left)]
    found = _scores([*pairs, pair("tan", NATIVE, dtype="bool")])
    assert found.outcome["bool"] == Score(hits=1, numbers=3)
    scores = left_to_numbers(found.judged)["bool"]
    assert (scores.failing, scores.passing) == (1, 1)
    assert scores.as_failures == Score(hits=2, false=1, numbers=1)
    assert scores.as_passes == Score(hits=1, missed=1, quiet=1, numbers=1)
    assert left_to_numbers(_scores(PAIRS).judged) == {}
