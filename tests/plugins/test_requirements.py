"""What a plugin needs, compared with what is there; the quick reading against ``packaging``'s."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from mpsprobe.plugins.requirements import incompatibility, is_installed, specifier_of_ours, unmet

NUMBERS = st.lists(st.integers(0, 12), min_size=1, max_size=3).map(lambda parts: ".".join(map(str, parts)))
CLAUSES = st.builds("{}{}".format, st.sampled_from([">=", "<=", "==", "!=", ">", "<", ">= ", "~="]), NUMBERS)


@given(st.lists(CLAUSES, min_size=1, max_size=3).map(",".join), NUMBERS)
@example(">=0.1,<1", "0.1.0")
@example("==0.1", "0.1.0")
def test_a_version_fits_as_packaging_says(specifier: str, version: str) -> None:
    if "~=" in specifier and any(clause.startswith("~=") and "." not in clause for clause in specifier.split(",")):
        specifier = ">=0"  # '~=1' is not a specifier
    fits = SpecifierSet(specifier).contains(version, prereleases=True)
    assert (incompatibility([specifier], version) is None) == fits


def test_what_does_not_fit_is_told_with_both_versions() -> None:
    assert incompatibility([">=0.1", ">=9,<10"], "0.1.0") == "it needs mpsprobe >=9,<10, and this is mpsprobe 0.1.0"
    assert incompatibility([], "0.1.0") is None
    assert incompatibility(["no specifier"], "0.1.0") is None
    assert incompatibility(["==0.1.*", ">=0.1.dev1"], "0.1.0") is None
    assert incompatibility([">=0.1"], "0.1.dev3") is not None


@pytest.mark.parametrize(
    ("text", "specifier"),
    [
        ("mpsprobe>=0.1", ">=0.1"),
        (" mpsprobe (>=0.1,<1)", ">=0.1,<1"),
        ("MPSProbe[testing] >= 0.1", ">= 0.1"),
        ("mpsprobe", None),
        ("mpsprobe-hf>=9", None),
        ("mpsprobe_hf>=9", None),
        ("torch>=9", None),
        ("mpsprobe>=9; extra == 'test'", None),
        ("mpsprobe>=9; python_version < '3'", None),
        ("mpsprobe>=9; python_version > '3'", ">=9"),
        ("mpsprobe>=9; what is this", None),
        ("", None),
        (">=9", None),
    ],
)
def test_what_a_requirement_says_of_mpsprobe(text: str, specifier: str | None) -> None:
    assert specifier_of_ours(text) == specifier


@given(st.from_regex(r"mpsprobe ?(\[[a-z]{1,5}\])? ?(>=|<|==) ?[0-9](\.[0-9])?", fullmatch=True))
def test_any_requirement_on_mpsprobe_is_read_as_packaging_reads_it(text: str) -> None:
    found = specifier_of_ours(text)
    assert found is not None
    assert SpecifierSet(found) == Requirement(text).specifier


def test_what_is_installed() -> None:
    asked = ("pluggy>=1", "pluggy>=99", "no-such-distribution-anywhere", "not a requirement!!")
    assert [is_installed(one) for one in asked] == [True, False, False, False]
    assert unmet("mpsprobe-coverage") == []
    assert unmet("no-such-distribution-anywhere") == []


def test_a_requirement_that_cannot_be_read_is_passed_over() -> None:
    for requirement in (f"mpsprobe>={'9' * 5000}", f"mpsprobe>=0.1; {'(' * 5000}", "mpsprobe>=0.1; nonsense =="):
        specifier = specifier_of_ours(requirement)
        assert incompatibility([specifier] if specifier else []) is None
