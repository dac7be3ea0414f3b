"""Digests of what verdicts rest on: an answer that was kept says by which rules it was made.

Three kinds, so that a change makes only those answers stale that it touches: of the code that judges, with the tables
that all releases share; of each release's tables; and, for each operator, of the data files' entries that name it
(``advisories/data``). ``rules.txt`` states them, so that nobody reads megabytes of tables for a comparison: a line for
each, its kind, what it is of, and the digest. Behind the digest of the code stand earlier ones, whose answers are the
same. It is written by ``python -m mpsprobe_coverage.rules``.
"""

# ruff: noqa: PTH100, PTH118, PTH120, PTH123
# Importing pathlib takes longer than an answer.
from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

ROOM = "knowledge"
"""The folder whose files count."""
HERE = os.path.dirname(os.path.abspath(__file__))
FILE = os.path.join(HERE, "rules.txt")
TABLE = re.compile(r".*/torch-([\d.]+)\.\w+")
"""A file of one release."""
ENTRIES = re.compile(r".*/advisories/data/\w+\.toml")
SAME = "--same"


class Rules(NamedTuple):
    code: tuple[str, ...]  # of the code as it is, then of code with the same answers
    releases: dict[str, str]
    operators: dict[str, str]  # by name; one that no entry names is not in it

    def entries(self, operators: Iterable[str]) -> str:
        """The digest of all entries about any of ``operators``."""
        named = (
            f"{operator} {self.operators[operator]}\n"
            for operator in sorted(set(operators))
            if operator in self.operators
        )
        return _digest("".join(named).encode())

    def digest(self) -> str:
        """Of all rules."""
        return _digest(repr((self.code[0], sorted(self.releases.items()), sorted(self.operators.items()))).encode())


def worked_out() -> Rules:
    """Of the files as they are here; reads all of them."""
    code: list[bytes] = []
    releases: dict[str, list[bytes]] = {}
    operators: dict[str, list[bytes]] = {}
    for name in _names():
        with open(os.path.join(HERE, *name.split("/")), "rb") as file:
            content = file.read().replace(b"\r\n", b"\n")  # as git may have written them on Windows
        if ENTRIES.fullmatch(name):
            for operator, entry in _entries(content.decode()):
                operators.setdefault(operator, []).append(entry)
            continue
        table = TABLE.fullmatch(name)
        of = releases.setdefault(table[1], []) if table else code
        of.append(f"{name} {_digest(content)}\n".encode())
    return Rules(
        (_digest(b"".join(code)),),
        {release: _digest(b"".join(tables)) for release, tables in sorted(releases.items())},
        {operator: _digest(b"".join(sorted(entries))) for operator, entries in sorted(operators.items())},
    )


def stated() -> Rules:
    """Of ``rules.txt``."""
    rules: dict[str, Any] = {"code": {}, "release": {}, "operator": {}}
    with open(FILE, encoding="ascii") as file:
        for line in file:
            kind, of, digest = line.split()
            rules[kind][of] = digest
    return Rules(tuple(rules["code"].values()), rules["release"], rules["operator"])


def _digest(content: bytes) -> str:
    import hashlib  # takes milliseconds, and not every command compares rules

    return hashlib.sha256(content).hexdigest()[:16]


def _entries(text: str) -> Iterator[tuple[str, bytes]]:
    """Each entry of a data file, with each operator that it names; no answer rests on what ``run`` computes of it."""
    import tomllib

    for entry in tomllib.loads(text)["advisory"]:
        entry.pop("computes", None)
        for operator in entry["operators"]:
            yield operator, repr(sorted(entry.items())).encode()


def _names() -> Iterator[str]:
    for folder, folders, files in os.walk(os.path.join(HERE, ROOM)):
        folders[:] = sorted(folder for folder in folders if folder != "__pycache__")
        inside = os.path.relpath(folder, HERE).replace(os.sep, "/")
        yield from (f"{inside}/{name}" for name in sorted(files))


def main(arguments: list[str]) -> None:
    """Write ``rules.txt``; with ``--same``, answers by the earlier code are still right: its digests stay in it."""
    rules = worked_out()
    earlier = stated().code if SAME in arguments else ()
    code = enumerate(dict.fromkeys((*rules.code, *earlier)))
    lines = [f"code {number} {digest}" for number, digest in code]
    lines += [f"release {release} {digest}" for release, digest in rules.releases.items()]
    lines += [f"operator {operator} {digest}" for operator, digest in rules.operators.items()]
    with open(FILE, "w", encoding="ascii", newline="\n") as file:
        file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
