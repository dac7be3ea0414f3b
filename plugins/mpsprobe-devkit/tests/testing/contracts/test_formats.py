"""Output compared with its format: what passes, and what is reported otherwise."""

from __future__ import annotations

import gzip

import pytest

from mpsprobe_devkit.testing import Broken
from mpsprobe_devkit.testing.contracts.formats import first_difference, refuse_control_characters, refuse_malformed
from mpsprobe_devkit.testing.mutations import MARKED_ELEMENT

SOUND = {
    "a.json": '{"a": [1, null, "\\u001b"]}',
    "a.trace.json": "[]",
    "a.jsonl": '{"a": 1}\n\n{"a": 2}\n',
    "a.html": f"<p title='&lt;{MARKED_ELEMENT}&gt;'>&lt;{MARKED_ELEMENT}&gt; <a href='https://localhost'>x</a></p>",
    "a.svg": "<svg xmlns='http://www.w3.org/2000/svg'><text>&lt;b&gt;</text></svg>",
    "a.csv": 'a,b\r\n"\'=HYPERLINK(1)",2\r\n',
    "a.tsv": "a\tb\n1\t2\n",
    "a.toml": "a = 1\n",
    "a.prom": "anything {at all",
    "a": "<",
    "A.JSON": "{}",
}
UNSOUND = {
    "a.json": ('{"a": Infinity}', "Infinity is not JSON"),
    "b.json": ("{", "is not valid JSON"),
    "a.jsonl": ('{"a": 1}\n{"a": NaN}\n', "NaN is not JSON"),
    "a.html": (f"<p><{MARKED_ELEMENT.upper()}>x</p>", "became an HTML element"),
    "b.html": ("<a href=' javascript:alert(1)'>x</a>", "a script in the attribute href"),
    "a.xml": (f"<a xmlns='x'><{MARKED_ELEMENT}/></a>", "became an XML element"),
    "b.xml": ("<a>", "is not valid XML"),
    "a.csv": ('a," =HYPERLINK(1)"\n', "became a formula"),
    "b.csv": ('a,"b', "is not valid CSV"),
    "a.tsv": ("a\t=HYPERLINK(1)\n", "became a formula"),
    "a.toml": ("a =", "is not valid TOML"),
    "c.json": (b"\xff", "is not valid JSON"),
    "d.json.gz": (b"not compressed", "is not valid GZ"),
}


@pytest.mark.parametrize("path", SOUND)
def test_what_is_well_formed_passes(path: str) -> None:
    refuse_malformed(path, SOUND[path], "it")
    refuse_malformed(path + ".gz", gzip.compress(SOUND[path].encode()), "it")


@pytest.mark.parametrize("path", UNSOUND)
def test_what_is_not_is_reported(path: str) -> None:
    content, says = UNSOUND[path]
    with pytest.raises(Broken, match=says):
        refuse_malformed(path, content, "it")


@pytest.mark.parametrize("text", ["a\x1b[0m", "a\x00", "a\x9b", "a\rb", "a\x7f"])
def test_control_characters(text: str) -> None:
    refuse_control_characters("a\tb\r\n\N{SNOWMAN}\n", "it")
    with pytest.raises(Broken, match=r"U\+00"):
        refuse_control_characters(text, "it")


def test_a_field_of_csv_may_have_a_carriage_return() -> None:
    refuse_control_characters("a\rb", "it", returns=False)


def test_the_first_difference_is_shown_where_it_is() -> None:
    assert first_difference(b"a\nbcd\n", b"a\nbxd\n") == ": line 2 was b'bcd', then b'bxd'"
    assert first_difference(b"a\n", b"a\nb\n", "run/x") == " in 'run/x': 2 bytes, then 4"
