"""Names: the nearest ones, those that are safe to print, those of targets; and what each error says."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpsprobe import errors
from mpsprobe.declarations import resolve
from mpsprobe.suggestions import SHOWN_CHARACTERS, nearest, printable, remedy

NAMES = ["bert-base", "bert-large", "distilbert", "gpt2", "gpt2-xl", "t5-small", "aten::linalg_qr.out"]


def test_a_near_name_is_found() -> None:
    pairs = {"bert-bas": "bert-base", "BERT-BASE": "bert-base", "gtp2": "gpt2", "bert": "bert-base"}
    pairs |= {"aten::linalg_qr": "aten::linalg_qr.out", **{name: name for name in NAMES}}
    assert {asked: nearest(asked, NAMES)[0] for asked in pairs} == pairs
    assert nearest("zzzzzz", NAMES) == nearest("", NAMES) == []
    assert nearest("gpt3", ["GPT2", "gpt2"]) == ["GPT2"]  # names that differ only in case are one


@given(st.text(), st.lists(st.text(max_size=30), max_size=20), st.integers(1, 5))
def test_answers_are_known_names_without_repeats(name: str, known: list[str], count: int) -> None:
    found = nearest(name, known, count)
    assert len(set(found)) == len(found) <= count and set(found) <= set(known)


@given(st.text(max_size=400))
def test_printable_is_one_short_line(text: str) -> None:
    shown = printable(text)
    assert shown.isprintable() and len(shown) <= SHOWN_CHARACTERS
    assert printable("a\x1b[31mb\nc\udcff") == "a\ufffd[31mb\ufffdc\ufffd"


@given(st.text(alphabet=st.characters(categories=["L", "N", "P"]), max_size=SHOWN_CHARACTERS))
def test_printable_leaves_plain_text_alone(text: str) -> None:
    assert printable(text) == text


def test_a_remedy_is_found_for_a_cause_too() -> None:
    try:
        try:
            raise RuntimeError("operator torchvision::nms does not exist")
        except RuntimeError as error:
            raise ValueError("cannot import detr") from error
    except ValueError as error:
        assert "pip install --upgrade torch torchvision" in str(remedy(error))
    assert ".cuda()" in str(remedy(AssertionError("Torch not compiled with CUDA enabled")))
    error = RuntimeError("its own cause")
    error.__cause__ = error
    assert remedy(error) is None
    assert remedy(RuntimeError("out of paper")) is None


def test_every_error_is_in_the_tree_of_the_docstring_with_its_exit_code() -> None:
    found = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, Exception)]
    assert len(found) == 11
    for one in found:
        assert issubclass(one, errors.MpsprobeError)
        assert one.exit_code == (1 if one is errors.CheckFailed else 2)
        assert one.__name__ in (errors.__doc__ or "")


def test_an_unknown_name_carries_the_nearest_ones() -> None:
    error = errors.UnknownName("workload", "bert-bas", ["bert-base", "gpt2"], "List them.")
    assert error.message == "unknown workload 'bert-bas'; did you mean 'bert-base'?"
    assert error.nearest == ["bert-base"]
    assert str(error) == f"{error.message}\nList them."
    assert "\x1b" not in errors.UnknownName("operator", "\x1b[2J\n", []).message


def test_a_missing_package_says_what_to_install() -> None:
    error = errors.MissingPackage("the command 'coverage'", "mpsprobe-coverage")
    assert "the command 'coverage' needs the package mpsprobe-coverage" in error.message
    assert error.hint == 'Install it: pip install "mpsprobe[all]"'
    assert errors.MissingPackage("it", "torch>=2.6").hint == 'Install it: pip install "mpsprobe[all]"'
    assert errors.MissingPackage("it", "timm>=1.0").hint == 'Install it: pip install "timm>=1.0"'


def test_the_target_of_a_declaration_is_imported_when_it_is_resolved() -> None:
    assert resolve("json:dumps") is json.dumps
    assert resolve("json:JSONDecoder.decode") is json.JSONDecoder.decode
    for target in ("", ":", "json", "json:", ":dumps"):
        with pytest.raises(errors.PluginError, match=r"not of the form 'package\.module:attribute'"):
            resolve(target)
    with pytest.raises(errors.PluginError, match="'json:nothing' does not resolve"):
        resolve("json:nothing")
    with pytest.raises(ImportError):
        resolve("mpsprobe_no_such_module:x")
