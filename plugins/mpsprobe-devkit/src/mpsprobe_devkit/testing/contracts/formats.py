"""Checks output against its format with the parsers of the standard library, by its extension."""

from __future__ import annotations

import csv
import gzip
import io
import json
import unicodedata
from collections.abc import Callable
from functools import partial
from html.parser import HTMLParser
from pathlib import PurePosixPath
from typing import NoReturn
from xml.etree import ElementTree

from mpsprobe.output import as_bytes
from mpsprobe_devkit.testing.contracts.clauses import Broken, described, want
from mpsprobe_devkit.testing.mutations import MARKED_ELEMENT, MARKED_FORMULA, MARKED_SCRIPT


def want_well_formed(path: str, content: str | bytes, what: str) -> None:
    """What ``path`` is by its extension, ``content`` has to be; an extension that says nothing here is left alone.

    Raises:
        Broken: it cannot be parsed, or text of the report became markup or a formula in it.
    """
    data, name = as_bytes(content), path.lower()
    try:
        if name.endswith(".gz"):
            data, name = gzip.decompress(data), name.removesuffix(".gz")
        if (parse := PARSERS.get(PurePosixPath(name).suffix)) is not None:
            parse(data.decode("utf-8"))
    except Broken as broken:
        raise Broken(f"{what}, rendered: {broken}") from broken.__cause__
    except (ValueError, OSError, EOFError, csv.Error, ElementTree.ParseError) as error:
        suffix = PurePosixPath(name).suffix[1:].upper()
        raise Broken(f"{what}, rendered, is not valid {suffix}: {described(error)}") from error


def want_no_control_characters(text: str, what: str, *, returns: bool = True) -> None:
    """``text`` has no control character but tabs and line ends; raises ``Broken``, which names it.

    Args:
        returns: a carriage return without a line feed is one of them; CSV may have it in a quoted field.
    """
    for found in text.replace("\r\n", "\n"):
        if unicodedata.category(found) == "Cc" and found not in ("\t\n" if returns else "\t\n\r"):
            near = text[max(0, text.index(found) - 20) :][:60]
            raise Broken(f"{what} has the control character U+{ord(found):04X}: {near!r}")


def first_difference(old: bytes, new: bytes) -> str:
    """Where two outputs differ first, as the end of a sentence."""
    for number, (here, there) in enumerate(zip(old.splitlines(), new.splitlines(), strict=False), 1):
        if here != there:
            start = next((i for i, (a, b) in enumerate(zip(here, there, strict=False)) if a != b), 0)
            first, second = (line[max(0, start - 20) :][:60] for line in (here, there))
            return f": line {number} was {first!r}, then {second!r}"
    return f": {len(old)} bytes, then {len(new)}"


def _refuse_constant(constant: str) -> NoReturn:
    raise Broken(f"{constant} is not JSON: write null, or leave the key out")


_json = partial(json.loads, parse_constant=_refuse_constant)


class _Elements(HTMLParser):
    """Looks for an element, or an address, that was text in the report."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Of each element: its name and its addresses."""
        want(tag != MARKED_ELEMENT, "text of the report became an HTML element: escape it")
        for name, value in attrs:
            if name in ("href", "src", "action", "formaction") and (value or "").strip().startswith(MARKED_SCRIPT):
                raise Broken(f"text of the report became a script in the attribute {name}: allow known schemes only")


def _xml(text: str) -> None:
    tags = [str(element.tag) for element in ElementTree.fromstring(text.encode("utf-8")).iter()]
    marked = any(tag.rpartition("}")[2] == MARKED_ELEMENT for tag in tags)
    want(not marked, "text of the report became an XML element: escape it")


def _separated(text: str, delimiter: str = ",") -> None:
    for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True):
        if any(cell.lstrip().startswith(MARKED_FORMULA) for cell in row):
            raise Broken("text of the report became a formula, which spreadsheets run: put ' before =, +, - and @")


PARSERS: dict[str, Callable[[str], object]] = {
    **dict.fromkeys((".json", ".ipynb"), _json),
    ".jsonl": lambda text: [_json(line) for line in text.split("\n") if line.strip()],
    **dict.fromkeys((".html", ".htm"), lambda text: _Elements().feed(text)),
    **dict.fromkeys((".xml", ".svg", ".xhtml"), _xml),
    ".csv": _separated,
    ".tsv": partial(_separated, delimiter="\t"),
}
