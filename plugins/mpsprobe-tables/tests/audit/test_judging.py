"""Outcomes of made-up runs, and what they are compared with."""

from __future__ import annotations

import pytest
from made_pairs import RELEASE, UNDEFINED, UNIMPLEMENTED, expectations, pair, seen

from mpsprobe_tables.audit.judging import EVERYTHING_PASSES, by_test, internal_errors, judge, outcome_of
from mpsprobe_tables.audit.running import Raised

MISSING = seen("aten::linalg_eig", "missing")


def test_a_refused_call_decides() -> None:
    outcome, cause, call = outcome_of(pair("abs", seen(), MISSING), RELEASE, False, "none")
    assert (outcome, call) == ("refused", MISSING)
    assert cause == "aten::linalg_eig missing: no kernel"


def test_a_call_of_the_backward_pass_counts_for_the_gradient_alone() -> None:
    made = pair("abs", seen(), seen("aten::sgn.out", "unsupported", "backward"))
    assert outcome_of(made, RELEASE, False, "none")[0] == "runs"
    assert outcome_of(made, RELEASE, True, "none")[0] == "refused"


def test_the_reference_raises() -> None:
    made = pair("abs", seen(), forward="sample 0: no", gradient="sample 0: no")
    assert outcome_of(made, RELEASE, False, "none")[:2] == ("reference raises", "sample 0: no")
    gradient_only = pair("abs", seen(), gradient="sample 3: no gradient")
    assert outcome_of(gradient_only, RELEASE, False, "none")[0] == "runs"
    assert outcome_of(gradient_only, RELEASE, True, "none")[0] == "reference raises"


@pytest.mark.parametrize(
    ("entry", "dtype", "release", "outcome"),
    [
        ("abs", "float16", "2.13.0", "runs"),
        ("abs", "bool", "2.13.0", "runs"),
        ("abs", "int32", "2.13.0", "reference raises"),
        ("histc", "int32", "2.13.0", "runs"),
        ("abs", "float16", "2.10.0", "reference raises"),
    ],
)
def test_a_reference_that_the_test_computes_in_float32(entry: str, dtype: str, release: str, outcome: str) -> None:
    made = pair(entry, seen(), dtype=dtype, forward="sample 0: not implemented", upcast=True)
    made.runs = {(release, "none"): made.runs[RELEASE, "none"]}
    assert outcome_of(made, release, False, "none")[0] == outcome


@pytest.mark.parametrize(("release", "outcome"), [("2.14.1", "reference raises"), ("2.15.0", "runs")])
def test_samples_of_entries_without_gradients_ask_for_none_since_2_15(release: str, outcome: str) -> None:
    made = pair("resize_", seen(), forward="sample 0: leaf", gradient="sample 0: leaf", differentiable=False)
    made.runs = {(release, "none"): made.runs[RELEASE, "none"]}
    assert [outcome_of(made, release, gradient, "none")[0] for gradient in (False, True)] == [outcome] * 2
    made.plain_gradient = "sample 0: 'bool' object is not iterable"
    assert outcome_of(made, release, True, "none")[0] == "reference raises"


def test_what_both_raise_is_no_second_try() -> None:
    alike = Raised("forward", 2, "RuntimeError: two bool tensors", reference_works=False)
    made = pair("abs", seen(), dtype="bool", raised=(alike,), forward="sample 0: not implemented", upcast=True)
    outcome, cause, _ = outcome_of(made, RELEASE, False, "none")
    assert outcome == "reference raises"
    assert cause == "sample 2, as MPS does: RuntimeError: two bool tensors"


def test_samples_that_cannot_be_drawn() -> None:
    outcome, cause, _ = outcome_of(pair("abs", drawing="NotImplementedError: max_pool2d"), RELEASE, False, "none")
    assert (outcome, cause) == ("reference raises", "drawing samples: NotImplementedError: max_pool2d")


def test_an_error_of_the_device_is_no_verdict() -> None:
    made = pair("abs", MISSING, raised=(Raised("backward", 4, "KeyError: 1", reference_works=True),))
    assert outcome_of(made, RELEASE, False, "none")[0] == "refused"
    assert outcome_of(made, RELEASE, True, "none")[:2] == ("internal error", "backward of sample 4: KeyError: 1")
    [(found, release, text)] = internal_errors([made, pair("exp", seen())])
    assert (found.entry, release, text) == ("abs", RELEASE, "backward of sample 4: KeyError: 1")


def test_random_gradients() -> None:
    made = pair("nn.functional.dropout", seen(), random_gradient=True)
    assert outcome_of(made, RELEASE, False, "none")[0] == "runs"
    assert outcome_of(made, RELEASE, True, "none")[0] == "random"


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
    facts = {"dtype": "bool", "forward": "sample 0: not implemented", "upcast": True}
    pairs = [
        pair("tan", seen(), exact=False, **facts),
        pair("exp", seen(), **facts),
        pair("sin", MISSING, exact=False, **facts),
    ]
    found = {one.entry: one.expected for one in judge(pairs, expectations({UNIMPLEMENTED: {"tan": None}}), "none")}
    assert found == {"tan": "numbers", "exp": "pass", "sin": "pass"}
