"""Strings on one line."""

from __future__ import annotations

from hostile import texts
from hypothesis import given
from hypothesis import strategies as st

from mpsprobe_exporters.plain_text import call_site, listed, one_line, plural, shortened


@given(texts, st.integers(min_value=5, max_value=400))
def test_one_line_is_printable_and_short(text: str, longest: int) -> None:
    line = one_line(text, longest)
    assert line.isprintable() and len(line) <= longest
    assert one_line(line, longest) == line


def test_one_line_keeps_both_ends() -> None:
    assert one_line("a" * 50 + "b" * 50, 12) == "aaaaaaaa…bbb"
    assert one_line("tab\tnew\r\nline\u2028end ") == "tab new line end"
    assert one_line("\x1b[31m\u202e") == "\N{REPLACEMENT CHARACTER}[31m\N{REPLACEMENT CHARACTER}"


def test_call_site() -> None:
    shown = {
        "/usr/lib/transformers/modeling_bert.py:164": "modeling_bert.py:164",
        "C:\\code\\model.py:3": "model.py:3",
        "model.py:3": "model.py:3",
        "../../etc/": "../../etc/",
    }
    assert {site: call_site(site) for site in shown} == shown


def test_words() -> None:
    said = [plural(1, "call"), plural(2000, "call"), plural(2, "pass", "passes")]
    assert said == ["1 call", "2,000 calls", "2 passes"]
    assert [listed(list(letters)) for letters in ("", "a", "ab", "abc")] == ["", "a", "a and b", "a, b and c"]
    assert shortened(["a", "b", "c"], 3) == ["a", "b", "c"]
    assert shortened(["a", "b", "c", "d"], 2) == ["a", "b", "and 2 more"]
