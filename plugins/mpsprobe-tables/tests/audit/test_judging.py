"""Outcomes of made-up runs, what they are compared with, and the figures of them, counted by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mpsprobe_tables.audit.device import Seen
from mpsprobe_tables.audit.judging import EVERYTHING_PASSES, by_test, internal_errors, judge, outcome_of
from mpsprobe_tables.audit.running import Pair, Raised, Ran
from mpsprobe_tables.audit.scoring import ExceptionLine, Score, Scores, left_to_numbers, scores, total
from mpsprobe_tables.expectations import Expectations, joined, load_expectations

RELEASE = "2.13.0"
UNIMPLEMENTED = "UNIMPLEMENTED_XFAILLIST"
UNDEFINED = "UNDEFINED_XFAILLIST"


def seen(
    operator: str = "aten::abs.out", verdict: str = "native", phase: str = "forward", dtype: str = "float32"
) -> Seen:
    """One kind of call."""
    reason = None if verdict == "native" else "no kernel"
    return Seen(operator, verdict, reason, None, phase, (dtype,), (dtype,))


def pair(entry: str, *calls: Seen, dtype: str = "float32", raised: tuple[Raised, ...] = (), **facts: Any) -> Pair:
    """A pair that ran on the device of ``RELEASE``, with and without lists alike."""
    runs = {(RELEASE, lists): Ran(calls, raised) for lists in ("none", "neighbours")}
    return Pair(entry, dtype, samples=1, runs=runs, **facts)


def expectations(
    lists: dict[str, dict[str, Any]] | None = None, gradient: dict[str, dict[str, Any]] | None = None
) -> Expectations:
    """What ``RELEASE`` is made to expect: list → entry → dtypes (None for all); all of its entries are there."""
    shipped = load_expectations(RELEASE)
    sections = {
        f"{test} {name}": {entry: joined(dtypes) for entry, dtypes in listed.items()}
        for test, of_test in (("forward", lists or {}), ("gradient", gradient or {}))
        for name, listed in of_test.items()
    }
    kinds = {section: "skip" if "SKIP" in section else "fail" for section in sections}
    return replace(shipped, kinds=kinds, sections={**sections, "entries": shipped.of("entries")})


MISSING = seen("aten::linalg_eig", "missing")


NO, UPCAST = "sample 0: no", {"forward": "sample 0: not implemented", "upcast": True}


def _outcomes(made: Pair, release: str = RELEASE) -> list[str]:
    """Of the test, and of that of its gradient."""
    made.runs = {(release, "none"): made.runs[RELEASE, "none"]}
    return [outcome_of(made, release, gradient, "none")[0] for gradient in (False, True)]


def test_outcomes() -> None:
    backward = seen("aten::sgn.out", "unsupported", "backward")
    raises = "reference raises"
    cases = {
        "a call of the backward pass": (pair("abs", seen(), backward), ["runs", "refused"]),
        "the reference raises": (pair("abs", seen(), forward=NO, gradient=NO), [raises] * 2),
        "its gradient does": (pair("abs", seen(), gradient="sample 3: no gradient"), ["runs", raises]),
        "random gradients": (pair("nn.functional.dropout", seen(), random_gradient=True), ["runs", "random"]),
        "float16 in float32": (pair("abs", seen(), dtype="float16", **UPCAST), ["runs", "runs"]),
        "truth values in float32": (pair("abs", seen(), dtype="bool", **UPCAST), ["runs", "runs"]),
        "no whole numbers in float32": (pair("abs", seen(), dtype="int32", **UPCAST), [raises] * 2),
        "but those of histc": (pair("histc", seen(), dtype="int32", **UPCAST), ["runs", "runs"]),
    }
    assert {name: _outcomes(made) for name, (made, _) in cases.items()} == {
        name: one for name, (_, one) in cases.items()
    }
    assert _outcomes(pair("abs", seen(), dtype="float16", **UPCAST), "2.10.0") == [raises] * 2


@pytest.mark.parametrize(("release", "outcome"), [("2.14.1", "reference raises"), ("2.15.0", "runs")])
def test_samples_of_entries_without_gradients_ask_for_none_since_2_15(release: str, outcome: str) -> None:
    made = pair("resize_", seen(), forward="sample 0: leaf", gradient="sample 0: leaf", differentiable=False)
    assert _outcomes(made, release) == [outcome] * 2
    made.plain_gradient = "sample 0: 'bool' object is not iterable"
    assert outcome_of(made, release, True, "none")[0] == "reference raises"


def test_causes() -> None:
    alike = Raised("forward", 2, "RuntimeError: two bool tensors", reference_works=False)  # no second try
    both = pair("abs", seen(), dtype="bool", raised=(alike,), **UPCAST)
    for made, outcome, cause in (
        (pair("abs", seen(), MISSING), "refused", "aten::linalg_eig missing: no kernel"),
        (pair("abs", seen(), forward=NO), "reference raises", NO),
        (both, "reference raises", "sample 2, as MPS does: RuntimeError: two bool tensors"),
        (
            pair("abs", drawing="NotImplementedError: pool"),
            "reference raises",
            "drawing samples: NotImplementedError: pool",
        ),
    ):
        assert outcome_of(made, RELEASE, False, "none")[:2] == (outcome, cause)
    assert outcome_of(pair("abs", seen(), MISSING), RELEASE, False, "none")[2] == MISSING


def test_an_error_of_the_device_is_no_verdict() -> None:
    made = pair("abs", MISSING, raised=(Raised("backward", 4, "KeyError: 1", reference_works=True),))
    text = "backward of sample 4: KeyError: 1"
    assert outcome_of(made, RELEASE, False, "none")[0] == "refused"
    assert outcome_of(made, RELEASE, True, "none")[:2] == ("internal error", text)
    [(found, release, said)] = internal_errors([made, pair("exp", seen())])
    assert (found.entry, release, said) == ("abs", RELEASE, text)


def test_what_is_expected() -> None:
    expected = expectations(
        {
            UNIMPLEMENTED: {"abs": None, "exp": ["int64"]},
            UNDEFINED: {"sin": None, "abs": None},
            "SKIPLIST": {"cos": None},
            "MACOS_13_3_XFAILLIST": {"tan": None},
        }
    )
    pairs = [pair(entry, seen()) for entry in ("abs", "exp", "sin", "cos", "tan")]
    found = {one.entry: (one.expected, one.agrees) for one in judge(pairs, expected, "none") if not one.gradient}
    assert found == {
        "abs": ("kernel", False),
        "exp": ("pass", True),
        "sin": ("numbers", True),
        "tan": ("numbers", True),
    }


def test_a_gradient_test_counts_where_its_forward_part_passes() -> None:
    expected = expectations({UNIMPLEMENTED: {"abs": None}}, {"XFAILLIST_GRAD": {"exp": None}})
    rows = by_test(judge([pair("abs", seen()), pair("exp", seen()), pair("sin", seen())], expected, "none"))
    assert {one.entry for one in rows["float32"]} == {"abs", "exp", "sin"}
    assert {one.entry for one in rows["gradient float32"]} == {"exp", "sin"}


def test_the_cause_of_what_was_missed() -> None:
    expected = expectations({UNIMPLEMENTED: {"abs": None, "sin": None}})
    pairs = [pair("abs", seen("aten::abs.out")), pair("exp", seen("aten::exp.out")), pair("sin", seen("aten::exp.out"))]
    causes = {one.entry: one.cause for one in judge(pairs, expected, "none") if not one.gradient}
    assert causes == {
        "abs": "nothing refused; with this dtype only here: aten::abs.out",
        "sin": EVERYTHING_PASSES,
        "exp": "",
    }


def test_truth_values_against_what_is_not_whole_are_a_matter_of_numbers() -> None:
    pairs = [
        pair("tan", seen(), dtype="bool", exact=False, **UPCAST),
        pair("exp", seen(), dtype="bool", **UPCAST),
        pair("sin", MISSING, dtype="bool", exact=False, **UPCAST),
    ]
    found = {one.entry: one.expected for one in judge(pairs, expectations({UNIMPLEMENTED: {"tan": None}}), "none")}
    assert found == {"tan": "numbers", "exp": "pass", "sin": "pass"}


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
    assert score == Score(hits=2, missed=1, false=1, quiet=1, numbers=2)
    assert (score.tests, round(score.recall, 3), round(score.precision, 3)) == (7, 0.667, 0.667)
    # The verdict alone leaves out what no device passes.
    assert found.device["int32"] == Score(hits=1, missed=1, false=1, quiet=1, numbers=2)
    listed = found.lists[UNIMPLEMENTED]
    assert (listed.tests, listed.refused, listed.raises, listed.runs) == (3, 1, 1, 1)
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
    assert found.outcome["int32"] == Score(hits=2, false=1, quiet=1, numbers=2)
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
