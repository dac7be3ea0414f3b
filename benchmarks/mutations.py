# ruff: noqa: T201 - a program for a terminal
"""Which seeded mistakes in the source do the tests find? ``benchmarks/mutations.py draw FILE``, then ``try FILE``.

``draw FILE --seed 33 --number 40`` writes a list of mistakes, each a small change of one line, drawn over all rooms:
two in each, the others by size. ``try FILE --checkout FOLDER --results FILE`` makes one after the other in a checkout
that may be broken and has its ``.venv``, and runs tests there until one fails: those of the file's name, then of its
room, then, for all that are left together, the whole suite. The same list can be tried on two commits: a mistake is
known by its line.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
OTHER: dict[type[ast.AST], Any] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add,
}  # fmt: skip
LONGEST_S = 1500
"""A run that takes longer has no end: it counts as one that fails."""


@dataclass(frozen=True)
class Mistake:
    """One small change.

    Attributes:
        path: below the root.
        line: as it is written; what is changed stands in it.
        occurrence: which of the file's lines with this text, from 0.
        changed: the line with the mistake in it.
    """

    path: str
    line: str
    occurrence: int
    changed: str

    def into(self, text: str) -> str | None:
        """``text`` of the file with this mistake; None if the line is not there any more."""
        lines = text.split("\n")
        places = [number for number, line in enumerate(lines) if line == self.line]
        if len(places) <= self.occurrence:
            return None
        lines[places[self.occurrence]] = self.changed
        return "\n".join(lines)


def mistakes_of(path: Path, checkout: Path) -> Iterator[Mistake]:
    """Each one that can be made in a file, in one line."""
    text = path.read_text(encoding="utf-8")
    lines = text.split("\n")
    for node in _nodes(ast.parse(text)):
        changed = _other(node)
        if changed is None or node.lineno != node.end_lineno:
            continue
        line = lines[node.lineno - 1].encode()
        start, end = node.col_offset, node.end_col_offset
        text_of_node = line[start:end].decode()
        if text_of_node == changed:
            continue
        made = (line[:start] + changed.encode() + line[end:]).decode()
        occurrence = lines[: node.lineno - 1].count(line.decode())
        yield Mistake(path.relative_to(checkout).as_posix(), line.decode(), occurrence, made)


def _nodes(tree: ast.AST) -> Iterator[ast.expr]:
    """Expressions that run: no annotations, and nothing that only types are checked with."""
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or (
                isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test)
            ):
                continue
            if isinstance(child, ast.expr) and not isinstance(tree, ast.JoinedStr):
                yield child
            yield from _nodes(child)


def _other(node: ast.expr) -> str | None:
    """The expression with a mistake in it, as source; None where none is made."""
    match node:
        case ast.Compare(ops=[op]) if type(op) in OTHER:
            return "(" + ast.unparse(ast.Compare(node.left, [OTHER[type(op)]()], node.comparators)) + ")"
        case ast.BoolOp():
            return "(" + ast.unparse(ast.BoolOp(OTHER[type(node.op)](), node.values)) + ")"
        case ast.BinOp() if type(node.op) in OTHER and not isinstance(node.left, ast.Constant):
            return "(" + ast.unparse(ast.BinOp(node.left, OTHER[type(node.op)](), node.right)) + ")"
        case ast.UnaryOp(op=ast.Not()):
            return "(" + ast.unparse(node.operand) + ")"
        case ast.IfExp():
            return "(" + ast.unparse(ast.IfExp(node.test, node.orelse, node.body)) + ")"
        case ast.Constant(value=bool()):
            return str(not node.value)
        case ast.Constant(value=int(value)):
            return str(value + 1)
    return None


def draw(checkout: Path, seed: int, number: int) -> list[Mistake]:
    """Two of each room, the others by how many can be made there; never two in one line."""
    chance = random.Random(seed)
    folders = ("mpsprobe", *sorted(str(one.relative_to(checkout)) for one in checkout.glob("plugins/*/src")))
    rooms = [_each(checkout, folder) for folder in folders]
    drawn = [one for room in rooms for one in chance.sample(room, 2)]
    every = [one for room in rooms for one in room]
    while len(drawn) < number:
        one = chance.choice(every)
        if all((one.path, one.line) != (other.path, other.line) for other in drawn):
            drawn.append(one)
    return drawn


def _each(checkout: Path, room: str) -> list[Mistake]:
    files = sorted((checkout / room).rglob("*.py"))
    return [one for path in files if "templates" not in path.parts for one in mistakes_of(path, checkout)]


class Trial:
    """Tries mistakes in a checkout, with the interpreter of its environment."""

    def __init__(self, checkout: Path, options: list[str]) -> None:
        self.checkout = checkout
        self.options = options

    def fails(self, mistakes: list[Mistake], tests: list[str]) -> str | None:
        """The first test that fails with ``mistakes`` made; None if all pass."""
        before = {path: (self.checkout / path).read_text(encoding="utf-8") for path in {one.path for one in mistakes}}
        try:
            for one in mistakes:
                file = self.checkout / one.path
                text = one.into(file.read_text(encoding="utf-8"))
                assert text is not None, one
                file.write_text(text, encoding="utf-8")
            return self._run(tests)
        finally:
            for path, text in before.items():
                (self.checkout / path).write_text(text, encoding="utf-8")

    def _run(self, tests: list[str]) -> str | None:
        command = [str(self.checkout / ".venv/bin/python"), "-B", "-m", "pytest", "-x", "-q", *self.options, *tests]
        # -B and the variable: what was compiled of a file with a mistake is not taken for the file without.
        environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
        with tempfile.TemporaryFile("w+", encoding="utf-8") as output:
            process = subprocess.Popen(
                command, cwd=self.checkout, stdout=output, stderr=output, env=environment, start_new_session=True
            )
            try:
                code = process.wait(LONGEST_S)
            except subprocess.TimeoutExpired:
                return "no end"
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
            output.seek(0)
            said = output.read()
        if code in (0, 5):  # 5: there are no such tests
            return None
        found = re.search(r"^(?:FAILED|ERROR) (.*)$", said, re.MULTILINE)
        return found[1] if found else said[-200:]

    def one(self, mistake: Mistake) -> str | None:
        """The first test that fails among those of the file's name, then of its room."""
        folder = "tests" if mistake.path.startswith("mpsprobe/") else mistake.path.partition("/src/")[0] + "/tests"
        path = Path(mistake.path)
        named = re.compile(rf"\b{path.parent.name}(\.| import (.*, )?){path.stem}\b")
        files = sorted(file for file in (self.checkout / folder).rglob("test_*.py") if file.parent.name != "mac")
        near = [str(file) for file in files if named.search(file.read_text(encoding="utf-8"))]
        return (near and self.fails([mistake], near)) or self.fails([mistake], [folder])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("draw", "try"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--seed", type=int, default=33)
    parser.add_argument("--number", type=int, default=40)
    parser.add_argument("--checkout", type=Path, default=ROOT)
    parser.add_argument("--results", type=Path)
    parser.add_argument("--pytest", default="", help="options of pytest, as one argument")
    asked = parser.parse_args()
    if asked.what == "draw":
        drawn = [asdict(one) for one in draw(asked.checkout.resolve(), asked.seed, asked.number)]
        asked.file.write_text(json.dumps(drawn, indent=1) + "\n", encoding="utf-8")
        return 0
    trial = Trial(asked.checkout.resolve(), shlex.split(asked.pytest))
    left, results = [], {}
    mistakes = [Mistake(**one) for one in json.loads(asked.file.read_text(encoding="utf-8"))]
    for number, one in enumerate(mistakes):
        results[number] = trial.one(one)
        print(number, one.path, one.changed.strip(), "->", results[number], flush=True)
        if results[number] is None:
            left.append(number)
        if asked.results:
            asked.results.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    if left:
        print("all that are left, in the whole suite:", left, trial.fails([mistakes[n] for n in left], []), flush=True)
    print(f"{len(mistakes) - len(left)} of {len(mistakes)} found by the tests of their room")
    return 0


if __name__ == "__main__":
    sys.exit(main())
