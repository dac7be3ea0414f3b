"""Checks output against its format with the parsers of the standard library, by its extension."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import tomllib
import unicodedata
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import PurePosixPath
from typing import NoReturn
from xml.etree import ElementTree

from mpsprobe.output import as_bytes
from mpsprobe_devkit.testing.contracts.clauses import Broken, described, listed
from mpsprobe_devkit.testing.mutations import MARKED_ELEMENT, MARKED_FORMULA, MARKED_SCRIPT

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
LONGEST_NAME = 255  # bytes of one part of a path, on every system of today
NOT_ON_WINDOWS = set('<>:"\\|?*')
RESERVED = {"con", "prn", "aux", "nul", *(f"{port}{number}" for port in ("com", "lpt") for number in range(1, 10))}
SHOWN = 60


def refuse_malformed(path: str, content: str | bytes, what: str) -> None:
    """What ``path`` is by its extension, ``content`` has to be; an extension that says nothing here is left alone.

    Raises:
        Broken: it cannot be parsed, or text of the report became markup or a formula in it.
    """
    data, name = as_bytes(content), path.lower()
    try:
        if name.endswith(".gz"):
            data, name = gzip.decompress(data), name.removesuffix(".gz")
        parse = PARSERS.get(PurePosixPath(name).suffix)
        if parse is not None:
            parse(data.decode("utf-8"))
    except Broken as broken:
        raise Broken(f"{what}, rendered: {broken}") from broken.__cause__
    except (ValueError, OSError, EOFError, csv.Error, ElementTree.ParseError) as error:
        suffix = PurePosixPath(name).suffix
        raise Broken(f"{what}, rendered, is not valid {suffix[1:].upper()}: {described(error)}") from error


def refuse_control_characters(text: str, what: str, *, returns: bool = True, shown: str = "rendered") -> None:
    """``text`` has no control character but tabs and line ends.

    Args:
        returns: a carriage return without a line feed is one of them; CSV may have it in a quoted field.
        shown: what was done with ``what`` to get it.

    Raises:
        Broken: it has one, which is named.
    """
    kept = text.replace("\r\n", "\n").replace("\t", "").replace("\n", "")
    found = next((c for c in kept if unicodedata.category(c) == "Cc" and (returns or c != "\r")), None)
    if found is not None:
        near = text[max(0, text.index(found) - 20) :][:SHOWN]
        raise Broken(f"{what}, {shown}, has the control character U+{ord(found):04X}: {near!r}")


def without_colours(text: str) -> str:
    """``text`` without the escape sequences that set colours and weights, which are harmless."""
    return COLOUR.sub("", text)


def refuse_paths(paths: list[str], what: str) -> None:
    """``paths`` are what ``FolderExporter.files`` promises: relative, below one folder, fit for every system.

    Raises:
        Broken: one is not, or two are the same where a file system does not tell upper case from lower.
    """
    for path in paths:
        parts = path.split("/")
        if len(parts) < 2 or path.startswith("/") or any(part in ("", ".", "..") for part in parts):
            _refuse_path(path, what, "is not a relative path of a file in a folder")
        for part in parts:
            if set(part) & NOT_ON_WINDOWS or any(unicodedata.category(c) == "Cc" for c in part):
                _refuse_path(path, what, "has a character that not every system takes")
            if part.split(".")[0].lower() in RESERVED or part.endswith((".", " ")):
                _refuse_path(path, what, "has a name that Windows does not take")
            if len(as_bytes(part)) > LONGEST_NAME:
                _refuse_path(path, what, f"has a name of more than {LONGEST_NAME} bytes")
    folders = {path.split("/")[0] for path in paths}
    if len(folders) > 1:
        raise Broken(f"the files of {what} are in {len(folders)} folders instead of one: {listed(sorted(folders)[:3])}")
    if len({path.lower() for path in paths}) < len(paths):
        raise Broken(f"two files of {what} have the same path, or paths that differ in case only")


def first_difference(old: bytes, new: bytes, path: str = "") -> str:
    """Where two outputs differ first, as the end of a sentence."""
    where = f" in {listed([path])}" if path else ""
    pairs = enumerate(zip(old.splitlines(), new.splitlines(), strict=False), 1)
    number, here, there = next(((number, *pair) for number, pair in pairs if pair[0] != pair[1]), (0, b"", b""))
    if not number:
        return f"{where}: {len(old)} bytes, then {len(new)}"
    start = next((i for i, (a, b) in enumerate(zip(here, there, strict=False)) if a != b), 0)
    first, second = (line[max(0, start - 20) :][:SHOWN] for line in (here, there))
    return f"{where}: line {number} was {first!r}, then {second!r}"


def _refuse_path(path: str, what: str, problem: str) -> NoReturn:
    raise Broken(f"{listed([path])}, a file of {what}, {problem}")


def _json(text: str) -> None:
    def refuse(constant: str) -> NoReturn:
        raise Broken(f"{constant} is not JSON: write null, or leave the key out")

    json.loads(text, parse_constant=refuse)


def _json_lines(text: str) -> None:
    for line in filter(str.strip, text.split("\n")):
        _json(line)


class _Elements(HTMLParser):
    """Looks for an element, or an address, that was text in the report."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Of each element: its name and its addresses."""
        if tag == MARKED_ELEMENT:
            raise Broken("text of the report became an HTML element: escape it")
        for name, value in attrs:
            if name in ("href", "src", "action", "formaction") and (value or "").strip().startswith(MARKED_SCRIPT):
                raise Broken(f"text of the report became a script in the attribute {name}: allow known schemes only")


def _html(text: str) -> None:
    elements = _Elements()
    elements.feed(text)
    elements.close()


def _xml(text: str) -> None:
    for element in ElementTree.fromstring(text.encode("utf-8")).iter():
        if str(element.tag).rpartition("}")[2] == MARKED_ELEMENT:
            raise Broken("text of the report became an XML element: escape it")


def _separated(delimiter: str) -> Callable[[str], None]:
    def read(text: str) -> None:
        for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True):
            if any(cell.lstrip().startswith(MARKED_FORMULA) for cell in row):
                raise Broken("text of the report became a formula, which spreadsheets run: put ' before =, +, - and @")

    return read


def _toml(text: str) -> None:
    tomllib.loads(text)


PARSERS: dict[str, Callable[[str], None]] = {
    ".json": _json,
    ".ipynb": _json,
    ".jsonl": _json_lines,
    ".ndjson": _json_lines,
    ".html": _html,
    ".htm": _html,
    ".xml": _xml,
    ".svg": _xml,
    ".xhtml": _xml,
    ".csv": _separated(","),
    ".tsv": _separated("\t"),
    ".toml": _toml,
}
