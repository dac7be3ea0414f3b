"""Names of new plugins: what is refused, and what the refusal says to do."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mpsprobe.errors import UsageError
from mpsprobe_devkit.scaffold.names import LONGEST, PREFIX, names_of


def _refusal(name: str) -> UsageError:
    with pytest.raises(UsageError) as caught:
        names_of(name)
    assert caught.value.hint, "it does not say what to do"
    assert all(one.isprintable() or one == "\n" for one in str(caught.value))
    return caught.value


@pytest.mark.parametrize("name", ["my-thing", "mpsprobe-my-thing", "x", "mpsprobe-3d", "a" * LONGEST, "match"])
def test_a_name_gives_the_package_and_the_short_name(name: str) -> None:
    names = names_of(name)
    assert names.distribution == name
    assert names.package == name.replace("-", "_") and names.package.isidentifier()
    assert names.short == name.removeprefix(PREFIX)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", "empty"),
        ("   ", "empty"),
        ("a" * 300, "300 characters"),
        ("../thing", "path"),
        ("/absolute", "path"),
        ("C:\\thing", "path"),
        ("..", "path"),
        ("my thing", "cannot be the name"),
        ("my\nthing", "cannot be the name"),
        ("<script>", "cannot be the name"),
        ('my"thing', "cannot be the name"),
        ("\x1b[31mthing", "cannot be the name"),
        ("3d", "cannot be the name"),
        ("-thing", "cannot be the name|not how package indexes"),
        ("my-thing-", "not how package indexes"),
        ("my--thing", "not how package indexes"),
        ("My_Thing", "not how package indexes"),
        ("my.thing", "not how package indexes"),
        ("b\N{CYRILLIC SMALL LETTER A}dge", "CYRILLIC SMALL LETTER A"),
        ("thing\N{ZERO WIDTH SPACE}", "ZERO WIDTH SPACE"),
        ("\udcff", "not ASCII"),
        ("mpsprobe", "what plugins are for"),
        ("class", "keyword"),
        ("json", "module of Python itself"),
        ("torch", "package of PyTorch"),
        ("torchaudio", "package of PyTorch"),
        ("tests", "means something else"),
        ("nul", "means something else"),
        ("com1", "means something else"),
        ("mpsprobe-coverage", "mpsprobe itself uses"),
        ("pydantic", "mpsprobe itself uses"),
        ("pip", "installed already"),
        ("markdown-it", "finds something else already"),
    ],
)
def test_other_names_are_refused_with_a_reason(name: str, said: str) -> None:
    assert re.search(said, _refusal(name).message)


def test_the_right_spelling_is_told() -> None:
    assert _refusal("My_Thing").hint == "Call it 'my-thing'."


@pytest.mark.parametrize("name", ["class", "json", "torch", "tests", "pip", "mpsprobe-coverage"])
def test_the_name_that_is_proposed_is_one_that_works(name: str) -> None:
    hint = _refusal(name).hint or ""
    proposed = re.findall(r"'([^']+)'", hint)
    assert [names_of(one).distribution for one in proposed] == proposed


@given(st.text(max_size=LONGEST + 5))
@example("mpsprobe-")
@example("mpsprobe-.-")
def test_whatever_is_typed_is_a_name_or_refused(name: str) -> None:
    try:
        names = names_of(name)
    except UsageError as error:
        assert error.hint
        return
    assert names.package.isidentifier() and re.fullmatch(r"[a-z0-9][a-z0-9-]*", names.short)
