"""A digest of what verdicts rest on, the code that judges and its tables: an answer that was kept says which made it.

``rules.txt`` states it, so that nobody reads megabytes of tables for a comparison. Its first line is the digest of the
files as they are, the lines after it are earlier ones, whose answers are the same. It is written by
``python -m mpsprobe_coverage.rules``.
"""

# ruff: noqa: PTH100, PTH118, PTH120, PTH123
# Importing pathlib takes longer than an answer.
from __future__ import annotations

import os
import sys
from collections.abc import Iterator

ROOM = "knowledge"
"""The folder whose files count."""
HERE = os.path.dirname(os.path.abspath(__file__))
FILE = os.path.join(HERE, "rules.txt")
SAME = "--same"


def digest() -> str:
    """Of the files as they are here, in hexadecimal; reads all of them."""
    import hashlib

    whole = hashlib.sha256()
    for name in _names():
        with open(os.path.join(HERE, *name.split("/")), "rb") as file:
            content = file.read().replace(b"\r\n", b"\n")  # as git may have written them on Windows
        whole.update(f"{name}\0".encode() + hashlib.sha256(content).digest())
    return whole.hexdigest()


def stated() -> list[str]:
    """The digests of ``rules.txt``: of the rules as they are, and of those whose answers are the same."""
    with open(FILE, encoding="ascii") as file:
        return file.read().split()


def _names() -> Iterator[str]:
    for folder, folders, files in os.walk(os.path.join(HERE, ROOM)):
        folders[:] = sorted(one for one in folders if one != "__pycache__")
        inside = os.path.relpath(folder, HERE).replace(os.sep, "/")
        yield from (f"{inside}/{name}" for name in sorted(files))


def main(arguments: list[str]) -> None:
    """Write ``rules.txt``; with ``--same``, answers that were kept are still right: earlier digests stay in it."""
    earlier = stated() if SAME in arguments else []
    digests = dict.fromkeys([digest(), *earlier])
    with open(FILE, "w", encoding="ascii", newline="\n") as file:
        file.write("\n".join(digests) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
