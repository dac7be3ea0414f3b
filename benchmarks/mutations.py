# ruff: noqa: T201 - a program for a terminal
"""Which seeded mistakes in the source do the tests find? ``benchmarks/mutations.py draw``, ``reach``, then ``try``.

``draw FILE --seed 33 --number 40`` writes a list of mistakes, each a small change of one line, drawn over all rooms:
two in each, the others by size. ``reach FILE --reached FILE`` runs the whole suite once, with every place marked where
a mistake would be, and writes down which tests come there. ``try FILE --reached FILE --results FILE`` makes one mistake
after the other and runs those tests, the quickest way there first, until one fails; where the line runs at an import,
the tests of its room. All change a checkout (``--checkout``), which has its ``.venv``, and put it back. The same list
can be tried on two commits: a mistake is known by its line.
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
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
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
MOST_TRIED = 150
"""Of the tests that come to a place."""


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


def mistakes_of(path: Path, checkout: Path) -> Iterator[tuple[Mistake, str]]:
    """Each one that can be made in a file, in one line; with that line as it notes that it is reached."""
    text = path.read_text(encoding="utf-8")
    lines = text.split("\n")
    for node in _nodes(ast.parse(text)):
        changed = _other(node)
        if changed is None or node.lineno != node.end_lineno:
            continue
        line = lines[node.lineno - 1].encode()
        before, text_of_node, after = (
            part.decode()
            for part in (
                line[: node.col_offset],
                line[node.col_offset : node.end_col_offset],
                line[node.end_col_offset :],
            )
        )
        if text_of_node == changed:
            continue
        whole = line.decode()
        mistake = Mistake(
            path.relative_to(checkout).as_posix(),
            whole,
            lines[: node.lineno - 1].count(whole),
            before + changed + after,
        )
        yield mistake, f"{before}(REACHED(NUMBER), {text_of_node})[1]{after}"


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
    return [one for path in files if "templates" not in path.parts for one, _ in mistakes_of(path, checkout)]


NOTING = """
import builtins, os
SEEN = set()
def REACHED(number):
    test = os.environ.get("PYTEST_CURRENT_TEST", "at an import (call)").rpartition(" (")[0]
    if (number, test) not in SEEN and "REACHED" in os.environ:
        SEEN.add((number, test))
        with open(os.environ["REACHED"], "a", encoding="utf-8") as file:
            file.write(f"{number} {test}\\n")
builtins.REACHED = REACHED
"""
"""A module of the environment while the suite runs, which each of its processes imports at its start."""


class Trial:
    """Changes a checkout and runs tests there, with the interpreter of its environment."""

    def __init__(self, checkout: Path, options: list[str]) -> None:
        self.checkout, self.options = checkout, options

    @contextmanager
    def _with(self, change: Callable[[str, str], str], paths: set[str]) -> Iterator[None]:
        before = {path: (self.checkout / path).read_text(encoding="utf-8") for path in paths}
        try:
            for path, text in before.items():
                (self.checkout / path).write_text(change(path, text), encoding="utf-8")
            yield
        finally:
            for path, text in before.items():
                (self.checkout / path).write_text(text, encoding="utf-8")

    def reached(self, mistakes: list[Mistake]) -> dict[int, list[str]]:
        """The tests that come to the place of each, those first that come to few others."""

        def marked(path: str, text: str) -> str:
            known = dict(mistakes_of(self.checkout / path, self.checkout))
            for number, one in enumerate(mistakes):
                if one.path == path and one in known:
                    text = replace(one, changed=known[one].replace("NUMBER", str(number))).into(text) or text
            return text

        [packages] = (self.checkout / ".venv/lib").glob("python*/site-packages")
        module, at_start = packages / "reached_by_tests.py", packages / "reached_by_tests.pth"
        with tempfile.TemporaryDirectory() as folder, self._with(marked, {one.path for one in mistakes}):
            notes = Path(folder, "reached.txt")
            notes.touch()
            try:
                module.write_text(NOTING, encoding="utf-8")
                at_start.write_text("import reached_by_tests\n", encoding="utf-8")
                self._run([], {"REACHED": str(notes)})
            finally:
                at_start.unlink(missing_ok=True)
                module.unlink(missing_ok=True)
            found: dict[int, list[str]] = {number: [] for number in range(len(mistakes))}
            for line in notes.read_text(encoding="utf-8").splitlines():
                number, _, test = line.partition(" ")
                found[int(number)].append(test)
        often = Counter(test for tests in found.values() for test in tests)
        return {number: sorted({*tests}, key=lambda test: (often[test], test)) for number, tests in found.items()}

    def fails(self, mistake: Mistake, tests: list[str]) -> str | None:
        """The first test that fails with ``mistake`` made; None if all pass."""

        def wrong(_: str, text: str) -> str:
            changed = mistake.into(text)
            assert changed is not None, mistake
            return changed

        with self._with(wrong, {mistake.path}):
            return self._run(["-x", *tests], {})

    def _run(self, arguments: list[str], variables: dict[str, str]) -> str | None:
        command = [str(self.checkout / ".venv/bin/python"), "-B", "-m", "pytest", "-q", *self.options, *arguments]
        # -B and the variable: what was compiled of a file with a mistake is not taken for the file without.
        environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"} | variables
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

    def one(self, mistake: Mistake, reached: list[str]) -> str | None:
        """The first test that fails among those that come there; the room's, where an import does too."""
        room = "tests" if mistake.path.startswith("mpsprobe/") else mistake.path.partition("/src/")[0] + "/tests"
        tests = [test for test in reached if "::" in test][:MOST_TRIED]
        found = self.fails(mistake, tests) if tests else None
        return found or (self.fails(mistake, [room]) if len(tests) < len(reached) <= MOST_TRIED else None)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("draw", "reach", "try"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--seed", type=int, default=33)
    parser.add_argument("--number", type=int, default=40)
    parser.add_argument("--checkout", type=Path, default=ROOT)
    parser.add_argument("--reached", type=Path, help="which tests come to the place of each mistake")
    parser.add_argument("--results", type=Path)
    parser.add_argument("--pytest", default="", help="options of pytest, as one argument")
    asked = parser.parse_args()
    checkout = asked.checkout.resolve()
    if asked.what == "draw":
        _write(asked.file, [asdict(one) for one in draw(checkout, asked.seed, asked.number)])
        return 0
    trial = Trial(checkout, shlex.split(asked.pytest))
    mistakes = [Mistake(**one) for one in json.loads(asked.file.read_text(encoding="utf-8"))]
    if asked.what == "reach":
        _write(asked.reached, trial.reached(mistakes))
        return 0
    reached = json.loads(asked.reached.read_text(encoding="utf-8"))
    results: dict[int, str | None] = {}
    for number, one in enumerate(mistakes):
        gone = (
            one.into((checkout / one.path).read_text(encoding="utf-8")) is None
            if (checkout / one.path).exists()
            else True
        )
        results[number] = "the line is gone" if gone else trial.one(one, reached[str(number)])
        print(number, one.path, one.changed.strip(), "->", results[number], flush=True)
        if asked.results:
            _write(asked.results, results)
    print(f"{sum(found is not None for found in results.values())} of {len(mistakes)} found")
    return 0


def _write(path: Path, document: object) -> None:
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
