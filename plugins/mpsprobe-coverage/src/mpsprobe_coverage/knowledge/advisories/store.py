"""The data files, one for each area, and the user's own, as checked entries.

Each entry is read when its operator is first asked about: a run meets some dozens of them, and TOML takes a
tenth of a second for all entries.
"""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Iterable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from mpsprobe.errors import MpsprobeError, UnknownName, UsageError
from mpsprobe.settings import advisory_files
from mpsprobe.suggestions import printable
from mpsprobe_coverage.knowledge.advisories.model import Advisory, Affected

_HEAD = re.compile(r"^\[\[advisory\]\][ \t]*(?:#.*)?$", re.MULTILINE)
_OPERATOR = re.compile(r'"(\w+::[\w.]+)"')
_IDENTIFIER = re.compile(r'^id[ \t]*=[ \t]*"([^"\n]*)"', re.MULTILINE)
_OF_RANGES = re.compile(r"^(?:torch|macos|chips|effect|operators)[ \t]*=[ \t]*(?:\[\n(?:.*\n)*?\]|.*)$", re.MULTILINE)
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
    shipped = [text for name in names for text in _split((folder / name).read_text(encoding="utf-8"), name)]
    return (*shipped, *_own({name[1] for part in shipped if (name := _IDENTIFIER.search(part.text))}))


def _own(taken: set[str]) -> Iterator[_Text]:
    """The entries of the user's own files, all of them checked; ``taken`` are identifiers of others."""
    for path in advisory_files():
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"cannot read {printable(path)}: {error}", "pyproject.toml names it.") from None
        for part in _split(text, printable(path)):
            if (name := _entry(part).id) in taken:
                raise MpsprobeError(f"{part.file}:{part.line}: the advisory '{name}' is there twice")
            taken.add(name)
            yield part


def forget() -> None:
    """Read the files again when they are next asked, from another folder perhaps."""
    for known in (_texts, _naming, _identified, entries_about, all_entries, all_advisories, advisories_for):
        known.cache_clear()
    affected_by_advisories.cache_clear()


@functools.cache
def _naming() -> dict[str, list[_Text]]:
    """Operator → the entries that name it somewhere."""
    texts: dict[str, list[_Text]] = {}
    for text in _texts():
        for operator in dict.fromkeys(_OPERATOR.findall(text.text)):
            texts.setdefault(operator, []).append(text)
    return texts


@functools.cache
def entries_about(operator: str) -> tuple[Advisory, ...]:
    """Those that are about calls of ``operator``, of every effect."""
    entries = map(_entry, _naming().get(operator, ()))
    return tuple(entry for entry in entries if operator in entry.operators)


@functools.cache
def all_entries() -> tuple[Advisory, ...]:
    by_id: dict[str, Advisory] = {}
    for text in _texts():
        entry = _entry(text)
        if entry.id in by_id:
            raise MpsprobeError(f"{text.file}:{text.line}: the advisory '{entry.id}' is there twice")
        by_id[entry.id] = entry
    return tuple(by_id[name] for name in sorted(by_id))


@functools.cache
def all_advisories() -> tuple[Advisory, ...]:
    return tuple(entry for entry in all_entries() if entry.effect == "numbers")


@functools.cache
def affected_by_advisories() -> tuple[Affected, ...]:
    """What has each of them, for who counts them: to read whole entries takes ten times as long."""
    return tuple(affected for affected in map(_affected, _texts()) if affected.effect == "numbers")


def _affected(text: _Text) -> Affected:
    try:
        return Affected.model_validate(tomllib.loads("\n".join(_OF_RANGES.findall(text.text))))
    except (tomllib.TOMLDecodeError, ValidationError):  # a list of chips in several lines
        return _entry(text)


def parse(text: str, name: str) -> list[Advisory]:
    """The entries of one data file called ``name``; an error says in which line of it."""
    return [_entry(part) for part in _split(text, name)]


def _split(text: str, name: str) -> list[_Text]:
    starts = [match.start() for match in _HEAD.finditer(text)]
    before = text[: starts[0]] if starts else text
    whole = _Text(name, 1, before)
    if _document(whole) or not starts:
        raise MpsprobeError(f"{name}:1: it has to be a list of [[advisory]], and nothing else")
    lines = [text.count("\n", 0, start) + 1 for start in starts]
    ends = [*starts[1:], len(text)]
    return [_Text(name, line, text[start:end]) for line, start, end in zip(lines, starts, ends, strict=True)]


def _document(text: _Text) -> dict[str, Any]:
    try:
        return tomllib.loads(text.text)
    except tomllib.TOMLDecodeError as error:
        place = _AT_LINE.search(str(error))
        line = text.line + (int(place[1]) - 1 if place else text.text.rstrip().count("\n"))
        raise MpsprobeError(f"{text.file}:{line}: {_AT_LINE.sub('', str(error))}") from None


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
    position = text.find(f'"{named}"', key.start()) if len(place) > 1 and isinstance(named, str) else -1
    return text.count("\n", 0, max(position, key.start()))


@functools.cache
def advisories_for(release: str, macos_minimum: str | None = None) -> tuple[Advisory, ...]:
    """Those that are known to concern a torch release, and a macOS that it runs on; see ``Advisory.affects``."""
    return tuple(advisory for advisory in all_advisories() if advisory.affects(release, macos_minimum))


def number_for(release: str, macos_minimum: str | None, macos: str | None, chip: str | None) -> int:
    """How many concern a release that runs on ``macos_minimum``, on that macOS and chip; None for any."""
    return sum(advisory.affects(release, macos_minimum, macos, chip) for advisory in affected_by_advisories())


def entry_of(name: str) -> Advisory:
    """That with the identifier ``name``, of any effect."""
    return _entry(_identified()[name])


def named(names: Iterable[str]) -> list[Advisory]:
    found = []
    for name in dict.fromkeys(names):
        one = _identified().get(name)
        if one is None or (advisory := _entry(one)).effect != "numbers":
            known = {advisory.id: advisory for advisory in all_advisories()}
            raise UnknownName("advisory", name, known, "mpsprobe advisories list shows them all.")
        found.append(advisory)
    return found


@functools.cache
def _identified() -> dict[str, _Text]:
    return {match[1]: text for text in _texts() if (match := _IDENTIFIER.search(text.text))}
