"""Which versions an advisory concerns, and which data files are refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from mpsprobe.errors import MpsprobeError, UnknownName
from mpsprobe_coverage.advisories.model import Advisory
from mpsprobe_coverage.advisories.store import advisories_for, all_advisories, named, parse

ENTRY: dict[str, Any] = {
    "id": "an-example",
    "title": "An example",
    "operators": ["aten::mm"],
    "when": [["self[-1]", ">", 3]],
    "condition": "more than three",
    "symptom": "Wrong.",
    "workaround": "Do not.",
    "torch": {"since": "2.1.0", "fixed": "2.4.0"},
    "macos": {},
    "basis": "Read.",
    "sources": ["pytorch/pytorch#1"],
}


def _made(**changes: Any) -> Advisory:
    return Advisory.model_validate({**ENTRY, **changes})


@pytest.mark.parametrize(
    ("affected", "inside", "outside"),
    [
        ({"since": "2.1.0", "fixed": "2.4.0"}, ["2.1.0", "2.3.1"], ["2.0.1", "2.4.0", "2.10.0"]),
        ({"since": "2.1.0", "open": True}, ["2.1.0", "2.15.0"], ["2.0.1"]),
        ({"seen": ["2.3.1"], "fixed": "2.4.0"}, ["2.3.1"], ["2.3.0", "2.4.0"]),
        ({"seen": ["2.1.0", "2.3.1"]}, ["2.1.0", "2.2.0", "2.3.1"], ["2.0.1", "2.4.0"]),
        ({"since": "2.1.0", "seen": ["2.3.0"]}, ["2.1.0", "2.3.0"], ["2.0.0", "2.3.1"]),
        ({"every": True}, ["1.12.0", "2.15.0"], []),
    ],
)
def test_releases(affected: dict[str, Any], inside: list[str], outside: list[str]) -> None:
    advisory = _made(torch=affected)
    assert all(advisory.affects(release) for release in inside)
    assert not any(advisory.affects(release) for release in outside)


@pytest.mark.parametrize(
    ("macos", "minimum", "asked", "concerned"),
    [
        ({}, "14.0", None, True),
        ({}, "14.0", "15.1", True),
        ({"fixed": "13.3"}, "12.3", None, True),
        ({"fixed": "13.3"}, "14.0", None, False),
        ({"fixed": "13.3"}, None, None, True),
        ({"fixed": "13.3"}, "12.3", "13.3", False),
        ({"fixed": "13.3"}, "12.3", "13.2.1", True),
        ({"since": "15.0", "open": True}, "12.3", "14.7", False),
        ({"since": "15.0", "open": True}, "12.3", "26", True),
        ({"seen": ["26.2"], "fixed": "26.3"}, "14.0", "26.1", False),
    ],
)
def test_systems(macos: dict[str, Any], minimum: str | None, asked: str | None, concerned: bool) -> None:
    assert _made(macos=macos).affects("2.2.0", minimum, asked) is concerned


@pytest.mark.parametrize(
    "changes",
    [
        {"id": "No Slug"},
        {"operators": []},
        {"when": []},
        {"when": [["self[-1]", "near", 3]]},
        {"when": [["self.colour", "==", 3]]},
        {"when": [["self", "is", "crooked"]]},
        {"when": [["self.dtype", "==", "float16"]]},
        {"when": [["self.dtype", "in", "float16"]]},
        {"when": [["self[-1]", "<", "Not A Subject"]]},
        {"when": [["phase", "in", ["sideways"]]]},
        {"torch": {}},
        {"torch": {"since": "two"}},
        {"torch": {"since": "2.4.0", "fixed": "2.1.0"}},
        {"torch": {"since": "2.1.0", "fixed": "2.4.0", "open": True}},
        {"torch": {"every": True, "since": "2.1.0"}},
        {"sources": []},
        {"sources": ["somewhere"]},
        {"symptom": " "},
        {"title": "two\nlines"},
        {"surprise": 1},
    ],
)
def test_what_is_no_advisory_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        _made(**changes)


@pytest.mark.parametrize("text", ["", "advisory = 3", "[[advisory]]\nid = 3", "][", "advisory = [3]"])
def test_damaged_files_are_named(text: str) -> None:
    with pytest.raises(MpsprobeError, match=r"^damaged\.toml"):
        parse(text, "damaged.toml")


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        parse(text, "any.toml")
    except MpsprobeError as error:
        assert str(error).startswith("any.toml")


def test_names_that_are_nearly_right() -> None:
    with pytest.raises(UnknownName) as caught:
        named(["attention-casual-half"])
    assert "attention-causal-half" in str(caught.value)
    assert [one.id for one in named(["cumsum-bool", "cumsum-bool"])] == ["cumsum-bool"]


def test_a_release_gets_its_own() -> None:
    found = {one.id for one in advisories_for("2.13.0", "14.0")}
    assert "conv-strided-weight" in found and "attention-causal-half" not in found
    assert found < {one.id for one in all_advisories()}


@pytest.mark.parametrize(
    ("chips", "inside", "outside", "where"),
    [
        (["m1", "m2"], ["m1-ultra", "M2 Pro 16GB"], ["m3", "m5-max"], "M1 and M2 only"),
        (["m1-max"], ["m1-max-64gb"], ["m1", "m1-ultra"], "Apple M1 Max only"),
        ([], ["m1", "m5-pro"], [], None),
    ],
)
def test_chips(chips: list[str], inside: list[str], outside: list[str], where: str | None) -> None:
    advisory = _made(chips=chips)
    assert advisory.where == where and advisory.affects("2.1.0")
    assert all(advisory.affects("2.1.0", chip=one) for one in inside)
    assert not any(advisory.affects("2.1.0", chip=one) for one in outside)


def test_a_chip_that_is_not_there() -> None:
    with pytest.raises(ValidationError, match="no chip and no generation"):
        _made(chips=["m17"])
