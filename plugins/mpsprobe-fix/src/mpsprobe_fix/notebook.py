"""A notebook as one program: its code cells one after the other, and each back in its place; outputs stay."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator

_CELL = "# mpsprobe-cell {}\n"
_MAGIC = "#mpsprobe-magic:"
_OF_PYTHON = re.compile(r"\s*%%(time|timeit|capture|prun|memit|mprun)\b")
_SPACE = re.compile(r"[ \t\r\n]*")
_LINE = re.compile(r"^(\s*)([%!?].*)$")


class Notebook:
    """The notebook of ``text``, a JSON document. Raises ValueError: it is none."""

    def __init__(self, text: str) -> None:
        self._text = text
        document = json.loads(text)
        if not isinstance(document, dict) or not isinstance(document.get("cells"), list):
            raise ValueError("no notebook with cells")
        self._spans: dict[int, tuple[int, int]] = {}
        self._codes: dict[int, str] = {}
        cells = _members(text, _spans(text, text.index("{"))["cells"][0])
        for number, (cell, (_, begin, _)) in enumerate(zip(document["cells"], cells, strict=True)):
            lines = cell.get("source") if isinstance(cell, dict) and cell.get("cell_type") == "code" else None
            code = "".join(lines) if isinstance(lines, list) and all(isinstance(one, str) for one in lines) else lines
            if isinstance(code, str) and code and _parses(_hidden(code)):
                self._codes[number] = code
                self._spans[number] = _spans(text, begin)["source"]
        self.code = "".join(f"{_CELL.format(number)}{_hidden(code)}\n" for number, code in self._codes.items())

    def with_code(self, code: str) -> str:
        """The document whose cells have ``code``; everything else stays, letter by letter."""
        parts = re.split(r"^# mpsprobe-cell (\d+)\n", code, flags=re.MULTILINE)
        # What stands before the first mark was put at the head: it belongs to the first cell.
        changed = dict(zip(map(int, parts[1::2]), parts[2::2], strict=True))
        if parts[0] and changed:
            first = min(changed)
            changed[first] = parts[0] + changed[first]
        made = self._text
        for number, text in sorted(changed.items(), reverse=True):
            shown = _shown(text.removesuffix("\n"))
            if shown != self._codes[number]:
                begin, end = self._spans[number]
                made = made[:begin] + _like(made[begin:end], shown) + made[end:]
        return made


def _members(text: str, at: int) -> Iterator[tuple[str | None, int, int]]:
    """Each value of the object or list of JSON that begins at ``at``: its key, and where it begins and ends."""
    decoder = json.JSONDecoder()
    closing = "}" if text[at] == "{" else "]"
    at = _behind(text, at + 1)
    while text[at] != closing:
        key = None
        if closing == "}":
            key, at = decoder.raw_decode(text, at)
            at = _behind(text, _behind(text, at) + 1)
        _, end = decoder.raw_decode(text, at)
        yield key, at, end
        at = _behind(text, end)
        if text[at] == ",":
            at = _behind(text, at + 1)


def _spans(text: str, at: int) -> dict[str | None, tuple[int, int]]:
    """Where each value of an object begins and ends; of a key that is there twice the last counts, as in ``json``."""
    return {key: (begin, end) for key, begin, end in _members(text, at)}


def _behind(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _like(old: str, code: str) -> str:
    """``code`` as JSON, written as ``old`` is: a text or a list, on as many lines, with or without escapes."""
    plain = not old.isascii() or code.isascii()
    if old.startswith('"'):
        return json.dumps(code, ensure_ascii=not plain)
    lines = [json.dumps(line, ensure_ascii=not plain) for line in code.splitlines(keepends=True)]
    opening, closing = old[1 : _behind(old, 1)], old[len(old[:-1].rstrip()) : -1]
    return "[" + opening + f",{opening or ' '}".join(lines) + closing + "]"


def _hidden(code: str) -> str:
    """``code`` with what only IPython reads as comments."""
    if code.lstrip().startswith("%%") and not _OF_PYTHON.match(code):
        return "".join(f"{_MAGIC}{line}" for line in code.splitlines(keepends=True))
    lines = [_LINE.match(line.rstrip("\n")) for line in code.splitlines()]
    text = [
        line if hit is None else f"{hit[1]}pass {_MAGIC}{hit[2]}" if hit[1] else f"{_MAGIC}{hit[2]}"
        for line, hit in zip(code.splitlines(), lines, strict=True)
    ]
    return "\n".join(text) + ("\n" if code.endswith("\n") else "")


def _shown(code: str) -> str:
    return re.sub(rf"^(\s*)(pass )?{_MAGIC}", r"\1", code, flags=re.MULTILINE)


def _parses(code: str) -> bool:
    try:
        ast.parse(code)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False
    return True
