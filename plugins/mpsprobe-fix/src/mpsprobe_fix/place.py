"""Where a node stands, for the rules: names, what is around it, what the head of the file shall have."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import libcst as cst
from libcst.metadata import CodeRange

from mpsprobe_fix.catalogue import source
from mpsprobe_fix.facts import MAC, Facts, Program, conditions, inner_functions, run_at_import

KEEP = "# mpsprobe: keep"
DECIDE = "# mpsprobe: decide: "
_NO_CODE = cst.Module([])


@dataclass(frozen=True)
class Change:
    """One edit, or what a person has to decide: ``text`` says what."""

    rule: str
    file: str
    line: int
    text: str = ""


def code_of(node: cst.CSTNode) -> str:
    return _NO_CODE.code_for_node(node)


def expression(code: str, template: cst.BaseExpression | None = None) -> cst.BaseExpression:
    """``code`` as an expression, in the parentheses of the one whose place it takes."""
    made = cst.parse_expression(code)
    return made.with_changes(lpar=template.lpar, rpar=template.rpar) if template is not None and template.lpar else made


class Place:
    """The place of the node that is looked at, ``original``; one object for all nodes of a file.

    Args:
        program: the file.
        file: its name.
        facts: of all files.
        seen: what a run found, by line.
        positions: where each node begins and ends.
        numbers: the number that each line of those has in the file.
    """

    def __init__(
        self, program: Program, file: str, facts: Facts, seen: Mapping[int, Any],
        positions: Mapping[cst.CSTNode, CodeRange], numbers: list[int],
    ) -> None:  # fmt: skip
        self.program = program
        self.file = file
        self.facts = facts
        self.seen = seen
        self.changes: list[Change] = []
        self.decisions: list[Change] = []
        self.around: list[cst.CSTNode] = []
        self.handled: set[tuple[int, str]] = set()
        self.original: Any = None
        self.rule = ""
        self.heads: dict[str, str] = {}
        self.needs_torch = False
        self.knows_mac = MAC.search(program.code) is not None
        self.known: dict[int, tuple[bool, bool]] = {}
        self.inner = inner_functions(program.nodes)
        self.at_import = run_at_import(program.tree)
        self._positions = positions
        self._numbers = numbers
        self.widened, self.with_mac = conditions(program.nodes)
        self._kept = {number for number, line in enumerate(program.lines, 1) if KEEP in line}
        self._decided = {line.strip() for line in program.lines if DECIDE in line}
        self._torch = next((alias for alias, name in program.names.items() if name == "torch"), "torch")
        self._pending: list[str] = []

    # What rules ask.

    def qualified(self, node: cst.CSTNode) -> str:
        """The full name of what an expression names, by the imports of the file, ``torch.cuda.amp.autocast``; else
        nothing."""
        parts: list[str] = []
        while isinstance(node, cst.Attribute):
            parts.append(node.attr.value)
            node = node.value
        if not isinstance(node, cst.Name) or node.value not in self.program.names:
            return ""
        return ".".join([self.program.names[node.value], *reversed(parts)])

    def line(self, node: cst.CSTNode) -> int:
        return self.lines(node)[0]

    def lines(self, node: cst.CSTNode) -> range:
        found = self._positions[node]
        return range(self._numbers[found.start.line - 1], self._numbers[found.end.line - 1] + 1)

    def parent(self, distance: int = 1) -> cst.CSTNode | None:
        return self.around[-distance] if len(self.around) >= distance else None

    def inside(self, kind: type[cst.CSTNode]) -> bool:
        return any(isinstance(one, kind) for one in self.around)

    @property
    def torch(self) -> str:
        """What the file calls torch; it is imported at the head where it is not."""
        self.needs_torch = True
        return self._torch

    def has_cuda(self) -> str:
        return f"{self.torch}.cuda.device_count() > 0" if self.facts.early else f"{self.torch}.cuda.is_available()"

    def has_mps(self) -> str:
        return f"{self.torch}.backends.mps.is_available()"

    def choice(self, cuda: str = "cuda") -> str:
        """The device as an expression, a text: ``cuda`` where there is one, else MPS, else the CPU."""
        return f'"{cuda}" if {self.has_cuda()} else "mps" if {self.has_mps()} else "cpu"'

    def device(self, cuda: str = "cuda") -> str:
        """The name of a constant at the head of the file with that choice."""
        return self._constant("DEVICE" if cuda == "cuda" else f"DEVICE_{cuda[5:]}", self.choice(cuda))

    def float64(self) -> str:
        """The name of a constant: float64, or float32 where the device is MPS, which has no float64."""
        value = f'{self.torch}.float32 if {self.device()} == "mps" else {self.torch}.float64'
        return self._constant("FLOAT64", value)

    def decide(self, text: str) -> None:
        """Leave a comment for a person above this statement, and a line in the summary."""
        self.decisions.append(Change(self.rule, self.file, self.line(self.original), text))
        comment = f"{DECIDE}{text} [{self.rule}]"
        if comment not in self._decided:
            self._decided.add(comment)
            self._pending.append(comment)

    def head(self, name: str, code: str = "") -> None:
        """Have what defines ``name`` at the head of the file: ``code``, or the function of the catalogue."""
        code = code or source(name)
        if re.search(r"\btorch\.", code):
            code = re.sub(r"\btorch\.", f"{self.torch}.", code)
        if not any(name in _defined(one) for one in self.program.tree.body):
            self.heads.setdefault(name, code)

    def _constant(self, name: str, value: str) -> str:
        code = f"{name} = {value}"
        same = ast.dump(ast.parse(code).body[0])
        while any(name in _defined(one) and ast.dump(one) != same for one in self.program.tree.body):
            name = f"MPS_OR_{name}"
            code = f"{name} = {value}"
            same = ast.dump(ast.parse(code).body[0])
        self.head(name, code)
        return name

    # What the walk asks.

    def kept(self, node: cst.CSTNode) -> bool:
        if not self._kept or node not in self._positions:
            return False
        lines = self.lines(node)
        return not self._kept.isdisjoint(lines[:1] if isinstance(node, cst.BaseCompoundStatement) else lines)

    def comments(self) -> list[cst.EmptyLine]:
        """Those for a person that the parts of this statement asked for."""
        made = [cst.EmptyLine(comment=cst.Comment(text)) for text in self._pending]
        self._pending.clear()
        return made


def _defined(statement: ast.stmt) -> set[str]:
    if isinstance(statement, ast.Assign):
        return {one.id for one in statement.targets if isinstance(one, ast.Name)}
    return {statement.name} if isinstance(statement, (ast.FunctionDef, ast.ClassDef)) else set()
