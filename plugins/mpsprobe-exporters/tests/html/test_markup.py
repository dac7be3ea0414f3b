"""No text becomes markup, whatever it is, and data in a page can be read back."""

from __future__ import annotations

import json

from hostile import on_any_text
from page_reader import Page

from mpsprobe_exporters.html.markup import Markup, element, embedded, name
from mpsprobe_exporters.html.markup import text as shown


@on_any_text
def test_any_text_stays_text(text: str) -> None:
    read = Page(element("p", text, element("b", "end"), title=text))
    assert read.counts == {"p": 1, "b": 1} and read.texts[-1] == "end"
    if text.isprintable() and len(text) <= 2000:
        assert "".join(read.texts) == text + "end" and read.values == [text] * bool(text)
    assert shown(text).isprintable()
    assert Page(name(text)).counts.keys() - {"wbr"} == {"code"}


@on_any_text
def test_data_ends_no_script_and_is_read_back(text: str) -> None:
    written = embedded({text: [text, 1, None]}, class_="x")
    assert written.isascii() and written.isprintable()
    body = written.removeprefix('<script type="application/json" class="x">').removesuffix("</script>")
    assert not set("<>&") & set(body)
    assert json.loads(body) == {text: [text, 1, None]}


def test_attributes() -> None:
    made = element("td", "1", class_="n", data_v=3, hidden=False, open=True, title=None, viewBox="0 0 1 1")
    assert made == '<td class="n" data-v="3" open viewBox="0 0 1 1">1</td>'
    assert element("br") == "<br>"


def test_children_are_taken_apart_and_markup_is_kept() -> None:
    inner = element("i", "a & b")
    assert element("p", ["x", [inner, None]], inner) == "<p>x<i>a &amp; b</i><i>a &amp; b</i></p>"
    assert isinstance(inner, Markup)


def test_long_names_are_shortened_and_told_in_full() -> None:
    long = "module." * 40
    assert f'title="{long}"' in name(long) and len("".join(Page(name(long, 60)).texts)) == 60
    assert name("") == "<code>(none)</code>"
