"""A notebook as one program: its code cells one after the other, and each back in its place; outputs stay."""

from __future__ import annotations

import ast
import json
import re
from typing import Any

_CELL = "# mpsprobe-cell {}\n"
_MAGIC = "#mpsprobe-magic:"
_OF_PYTHON = re.compile(r"\s*%%(time|timeit|capture|prun|memit|mprun)\b")
_LINE = re.compile(r"^(\s*)([%!?].*)$")


class Notebook:
    """The notebook of ``text``, a JSON document.

    Raises:
        ValueError: it is none.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._document: Any = json.loads(text)
        cells = self._document.get("cells") if isinstance(self._document, dict) else None
        if not isinstance(cells, list):
            raise ValueError("no notebook with cells")
        self._codes = {
            number: "".join(cell.get("source", []))
            for number, cell in enumerate(cells)
            if isinstance(cell, dict) and cell.get("cell_type") == "code"
        }
        self._codes = {number: code for number, code in self._codes.items() if _parses(_hidden(code))}
        self.code = "".join(f"{_CELL.format(number)}{_hidden(code)}\n" for number, code in self._codes.items())

    def with_code(self, code: str) -> str:
        """The document whose cells have ``code``, in the format of this one."""
        parts = re.split(r"^# mpsprobe-cell (\d+)\n", code, flags=re.MULTILINE)
        # What stands before the first mark was put at the head: it belongs to the first cell.
        changed = dict(zip(map(int, parts[1::2]), parts[2::2], strict=True))
        if parts[0] and changed:
            first = min(changed)
            changed[first] = parts[0] + changed[first]
        for number, text in changed.items():
            shown = _shown(text.removesuffix("\n"))
            if shown != self._codes[number]:
                cell = self._document["cells"][number]
                cell["source"] = shown if isinstance(cell["source"], str) else shown.splitlines(keepends=True)
        indent = re.search(r"\n( +)\"", self._text)
        made = json.dumps(self._document, indent=len(indent[1]) if indent else None, ensure_ascii=False)
        return made + self._text[len(self._text.rstrip()) :]


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
    except (SyntaxError, ValueError):
        return False
    return True
