"""The data files, one for each area, as checked entries; each entry is read when its operator is first asked about.

A run meets some dozens of operators, and TOML takes a tenth of a second for all entries.
"""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Iterable
from importlib.resources import files
from typing import Any, NamedTuple

from pydantic import ValidationError

from mpsprobe.errors import MpsprobeError, UnknownName
from mpsprobe_coverage.knowledge.advisories.model import Advisory

_HEAD = re.compile(r"^\[\[advisory\]\][ \t]*(?:#.*)?$", re.MULTILINE)
_OPERATOR = re.compile(r'"(\w+::[\w.]+)"')
_AT_LINE = re.compile(r" \(at line (\d+), column \d+\)")


class _Text(NamedTuple):
    """One entry of a data file."""

    file: str
    line: int  # the first one, counted from 1
    text: str


@functools.cache
def _texts() -> tuple[_Text, ...]:
    folder = files("mpsprobe_coverage.knowledge.advisories") / "data"
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".toml"))
    return tuple(one for name in names for one in _split((folder / name).read_text(encoding="utf-8"), name))


@functools.cache
def _naming() -> dict[str, list[_Text]]:
    """Operator → the entries that name it somewhere."""
    found: dict[str, list[_Text]] = {}
    for one in _texts():
        for operator in dict.fromkeys(_OPERATOR.findall(one.text)):
            found.setdefault(operator, []).append(one)
    return found


@functools.cache
def entries_about(operator: str) -> tuple[Advisory, ...]:
    """Those that are about calls of ``operator``, of every effect."""
    found = map(_entry, _naming().get(operator, ()))
    return tuple(entry for entry in found if operator in entry.operators)


@functools.cache
def all_entries() -> tuple[Advisory, ...]:
    by_id: dict[str, Advisory] = {}
    for one in _texts():
        entry = _entry(one)
        if entry.id in by_id:
            raise MpsprobeError(f"{one.file}:{one.line}: the advisory '{entry.id}' is there twice")
        by_id[entry.id] = entry
    return tuple(by_id[name] for name in sorted(by_id))


@functools.cache
def all_advisories() -> tuple[Advisory, ...]:
    return tuple(entry for entry in all_entries() if entry.effect == "numbers")


def parse(text: str, name: str) -> list[Advisory]:
    """The entries of one data file called ``name``; an error says in which line of it."""
    return [_entry(one) for one in _split(text, name)]


def _split(text: str, name: str) -> list[_Text]:
    starts = [match.start() for match in _HEAD.finditer(text)]
    before = text[: starts[0]] if starts else text
    one = _Text(name, 1, before)
    if _document(one) or not starts:
        raise MpsprobeError(f"{name}:1: it has to be a list of [[advisory]], and nothing else")
    lines = [text.count("\n", 0, start) + 1 for start in starts]
    ends = [*starts[1:], len(text)]
    return [_Text(name, line, text[start:end]) for line, start, end in zip(lines, starts, ends, strict=True)]


def _document(one: _Text) -> dict[str, Any]:
    try:
        return tomllib.loads(one.text)
    except tomllib.TOMLDecodeError as error:
        place = _AT_LINE.search(str(error))
        line = one.line + (int(place[1]) - 1 if place else one.text.rstrip().count("\n"))
        raise MpsprobeError(f"{one.file}:{line}: {_AT_LINE.sub('', str(error))}") from None


@functools.cache
def _entry(one: _Text) -> Advisory:
    document = _document(one)
    entry = document["advisory"][0]
    if len(document) > 1:
        raise MpsprobeError(f"{one.file}:{one.line}: it has to be a list of [[advisory]], and nothing else")
    try:
        return Advisory.model_validate(entry)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        line = one.line + _line_of(first["loc"], first["input"], one.text)
        text = first["msg"].removeprefix("Value error, ")
        whose = f"advisory '{entry['id']}': " if isinstance(entry.get("id"), str) else ""
        raise MpsprobeError(f"{one.file}:{line}: {whose}{where}{': ' * bool(where)}{text}") from None


def _line_of(place: tuple[int | str, ...], value: Any, text: str) -> int:
    """How many lines of an entry are before the key at ``place``, or before ``value`` in a list of several lines."""
    key = re.search(rf"^[ \t]*{re.escape(str(place[0]))}\b", text, re.MULTILINE) if place else None
    if key is None:
        return 0
    named = value[0] if isinstance(value, list) and value else value
    found = text.find(f'"{named}"', key.start()) if len(place) > 1 and isinstance(named, str) else -1
    return text.count("\n", 0, max(found, key.start()))


@functools.cache
def advisories_for(release: str, macos_minimum: str | None = None) -> tuple[Advisory, ...]:
    """Those that are known to concern a torch release, and a macOS that it runs on; see ``Advisory.affects``."""
    return tuple(advisory for advisory in all_advisories() if advisory.affects(release, macos_minimum))


def named(names: Iterable[str]) -> list[Advisory]:
    known = {advisory.id: advisory for advisory in all_advisories()}
    names = list(dict.fromkeys(names))
    for name in names:
        if name not in known:
            raise UnknownName("advisory", name, known, "mpsprobe advisories list shows them all.")
    return [known[name] for name in names]
