"""The pages and their fenced blocks. What stands behind the language of a fence says what becomes of the block.

========================  =====================================================================================
``console run``           Its commands are run in a folder of their own, a copy of ``docs/examples`` and of the
                          files above it on the page, and print what stands below them.
``console then``          The same in the folder of the block before.
``LANGUAGE file=PATH``    The block is a file; blocks below that are run find it.
``LANGUAGE from=PATH``    The lines stand in that file of ``docs/examples``, in this order.
``python run``, ``then``  The code is run in such a folder, and raises nothing.
``console WHY``           Cannot be run here, for one of the reasons in ``WHY``; its commands are parsed.
``… cached``              Behind ``run`` or ``then``: with the cache on, in a folder of the page's own.
``… tensorflow``          Behind ``run`` or ``then``: where TensorFlow is, by the tests of ``mpsprobe-tensorflow``.
``… compiler``            Likewise: where a C++ compiler is, by those of ``mpsprobe-coverage``.
========================  =====================================================================================

After ``$`` stands a command, whose exit code is 0 unless a comment says ``# exits with N``; below it stand parts of
what it prints, in that order, with ``…`` for anything in between. Runs of blanks count as one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from _site.contents import NOTES

from tests.house.tree import ROOT, files, shown

DOCS = ROOT / "docs"
EXAMPLES = DOCS / "examples"
WHY = set(NOTES)
TENSORFLOW, COMPILER, CACHED = "tensorflow", "compiler", "cached"
NEEDS = {TENSORFLOW, COMPILER}
"""What a block may say instead of being run, for a reason that its readers see above it."""

EVERY = [path for path in files() if path.suffix == ".md" and "tests" not in path.relative_to(ROOT).parts]
"""Every page of the repository."""
OWN = [path for path in EVERY if path.is_relative_to(DOCS) and not path.is_relative_to(EXAMPLES)]
"""Those of the documentation itself; distributions in ``docs/examples`` have tests of their own."""

FENCED = re.compile(r"(?ms)^(?P<indent>[ \t]*)(?P<fence>`{3,})(?P<info>[^`\n]*)\n(?P<text>.*?)^[ \t]*(?P=fence)[ \t]*$")
COMMENT = re.compile(r"\s#\s.*$")
EXIT = re.compile(r"#\s*exits with (\d+)")


@dataclass(frozen=True)
class Block:
    """One fenced block: the line of its fence, what stands there, and its text."""

    page: Path
    line: int
    language: str
    words: tuple[str, ...]
    text: str

    @property
    def place(self) -> str:
        """As messages and test ids name it."""
        return f"{shown(self.page)}:{self.line}"

    def value(self, key: str) -> str | None:
        """``PATH`` of ``key=PATH``."""
        return next((word.removeprefix(key + "=") for word in self.words if word.startswith(key + "=")), None)

    @property
    def is_run(self) -> bool:
        return bool({"run", "then"} & set(self.words))


@dataclass(frozen=True)
class Typed:
    """One command of a block: what is typed, what it is said to print, the exit code that it is said to have."""

    line: str
    printed: str
    code: int


def blocks(page: Path) -> list[Block]:
    text, found = page.read_text(encoding="utf-8"), []
    assert not re.search(r"(?m)^\s*`{3,}[^`\n]*$", FENCED.sub("", text)), f"{shown(page)}: a block is not closed"
    for fence in FENCED.finditer(text):
        language, *words = fence["info"].split() or [""]
        marks = () if language.startswith("{") else tuple(words)  # of a directive (``{command} run``) they are none
        lines = [line[len(fence["indent"]) :] for line in fence["text"].split("\n")[:-1]]
        found.append(Block(page, text.count("\n", 0, fence.start()) + 1, language, marks, "\n".join(lines)))
    return found


def typed(block: Block) -> Iterator[Typed]:
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        command, _, printed = part.partition("\n")
        while command.endswith("\\"):
            more, _, printed = printed.partition("\n")
            command = command[:-1] + more.strip()
        code = EXIT.search(command)
        yield Typed(COMMENT.sub("", command).strip(), printed, int(code.group(1)) if code else 0)


def stories(page: Path, need: str | None = None) -> list[list[Block]]:
    """What is run together, in one folder and in order: files first, then a block that is run and what continues it.

    Those that need nothing but Python, or ``need``.
    """
    found: list[list[Block]] = []
    above: list[Block] = []
    for block in blocks(page):
        if block.value("file") is not None:
            above.append(block)
            if found:
                found[-1].append(block)
        elif "run" in block.words:
            found.append([*above, block])
        elif "then" in block.words:
            assert found, f"{block.place} continues nothing"
            found[-1].append(block)
    needs = [{word for block in story for word in block.words} & NEEDS for story in found]
    return [story for story, words in zip(found, needs, strict=True) if words == ({need} if need else set())]
