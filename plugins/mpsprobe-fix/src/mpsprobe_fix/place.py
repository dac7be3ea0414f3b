"""What rules ask: where a node stands, names, literals, arguments, conditions about CUDA, the head of the file."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import libcst as cst
import libcst.matchers as m
from libcst.metadata import CodeRange

from mpsprobe_fix.catalogue import source
from mpsprobe_fix.facts import ASKED, CUDA, MAC, Facts, Program, conditions, inner_functions, last_name, run_at_import

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
    """The place of the node that is looked at, ``original``; one object for all nodes of a file, where a run has
    ``seen`` something by line."""

    def __init__(self, program: Program, file: str, facts: Facts, seen: Mapping[int, Any]) -> None:
        self.program = program
        self.qualified = program.qualified
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
        self.known: dict[cst.CSTNode, tuple[bool, bool]] = {}
        self.inner = inner_functions(program.nodes)
        self.at_import = run_at_import(program.tree)
        self._positions: Mapping[cst.CSTNode, CodeRange] = {}
        self._before = 0
        self.widened, self.with_mac = conditions(program.nodes)
        self._kept = {number for number, line in enumerate(program.lines, 1) if KEEP in line}
        self._decided = {line.strip() for line in program.lines if DECIDE in line}
        self._torch = next((alias for alias, name in program.names.items() if name == "torch"), "torch")
        self._pending: list[str] = []

    # What rules ask.

    def line(self, node: cst.CSTNode) -> int:
        return self.lines(node)[0]

    def lines(self, node: cst.CSTNode) -> range:
        position = self._positions[node]
        return range(self._before + position.start.line, self._before + position.end.line + 1)

    def parent(self, distance: int = 1) -> cst.CSTNode | None:
        return self.around[-distance] if len(self.around) >= distance else None

    def inside(self, kind: type[cst.CSTNode]) -> bool:
        return any(isinstance(node, kind) for node in self.around)

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
        if not any(name in _defined(statement) for statement in self.program.tree.body):
            self.heads.setdefault(name, code)

    def _constant(self, name: str, value: str) -> str:
        code = f"{name} = {value}"
        same = ast.dump(ast.parse(code).body[0])
        while any(name in _defined(statement) and ast.dump(statement) != same for statement in self.program.tree.body):
            name = f"MPS_OR_{name}"
            code = f"{name} = {value}"
            same = ast.dump(ast.parse(code).body[0])
        self.head(name, code)
        return name

    # What the walk asks.

    def enter(self, before: int, positions: Mapping[cst.CSTNode, CodeRange]) -> None:
        """Look at a statement with so many lines ``before`` it, whose nodes have these ``positions`` in it."""
        self._before, self._positions = before, positions

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
        return {target.id for target in statement.targets if isinstance(target, ast.Name)}
    return {statement.name} if isinstance(statement, (ast.FunctionDef, ast.ClassDef)) else set()


# A device of CUDA whose number the program works out.
NUMBERED = "|".join((
    r"""f["']cuda:\{[^,"']+\}["']""",
    r"""["']cuda:["'] *\+[^,"']+""",
    r"""["']cuda:%[ds]["'] *%[^,"']+""",
    r"""["']cuda:\{\}["']\.format\(.+\)""",
))  # fmt: skip
_COMPARES = re.compile(r"""(==|\bin\b|startswith\()\s*\(?["']cuda|["']cuda["']\s*(==|in)\b""")


def text(node: object) -> str | None:
    """The value of a plain literal text."""
    if isinstance(node, cst.SimpleString) and not node.prefix:
        value = node.evaluated_value
        return value if isinstance(value, str) else None
    return None


def cuda_text(node: object) -> str | None:
    """``cuda`` or ``cuda:1``, where a literal is that; an integer is the device of that number."""
    value = text(node)
    if value is not None and CUDA.fullmatch(value):
        return value
    return None


def cuda_index(node: object) -> str | None:
    return f"cuda:{int(node.value)}" if isinstance(node, cst.Integer) and node.value.isdigit() else None


def argument(call: cst.Call, name: str, position: int | None = None) -> cst.Arg | None:
    """The argument of a call that is given by ``name``, or stands at ``position``."""
    for number, passed in enumerate(call.args):
        if passed.keyword is not None and passed.keyword.value == name:
            return passed
        if passed.keyword is None and not passed.star and number == position:
            return passed
    return None


def with_arguments(
    call: cst.Call, change: Callable[[str, cst.BaseExpression], cst.BaseExpression | None]
) -> cst.Call | None:
    """``call`` with other values, as far as ``change`` has one for a keyword and a value; ``None`` without any."""
    values = [change(passed.keyword.value if passed.keyword else "", passed.value) for passed in call.args]
    if not any(values):
        return None
    changed = zip(call.args, values, strict=True)
    return call.with_changes(
        args=[passed if new is None else passed.with_changes(value=new) for passed, new in changed]
    )


def with_value(call: cst.Call, argument: cst.Arg, code: str) -> cst.Call:
    """``call`` with another value of one of its arguments."""
    args = [passed.with_changes(value=expression(code)) if passed is argument else passed for passed in call.args]
    return call.with_changes(args=args)


def with_keyword(call: cst.Call, name: str, value: str) -> cst.Call:
    """``call`` with one more keyword argument, behind its others and in the same manner."""
    added = cst.Arg(
        cst.parse_expression(value), keyword=cst.Name(name),
        equal=cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace("")),
    )  # fmt: skip
    args = list(call.args)
    if args and isinstance(args[-1].comma, cst.Comma):
        return call.with_changes(args=[*args, added.with_changes(comma=args[-1].comma)])
    if args:
        args[-1] = args[-1].with_changes(comma=cst.Comma(whitespace_after=cst.SimpleWhitespace(" ")))
    return call.with_changes(args=[*args, added])


def called(call: cst.Call) -> str:
    """The last part of the name of what is called."""
    function = call.func
    return function.attr.value if isinstance(function, cst.Attribute) else getattr(function, "value", "")


def method(call: cst.Call, *names: str) -> bool:
    return isinstance(call.func, cst.Attribute) and call.func.attr.value in names


def lone_call(line: cst.SimpleStatementLine) -> cst.Call | None:
    """The call that is a statement of its own line."""
    only = line.body[0] if len(line.body) == 1 else None
    return only.value if isinstance(only, cst.Expr) and isinstance(only.value, cst.Call) else None


def for_cuda(line: cst.SimpleStatementLine, place: Place, otherwise: cst.If | None = None) -> cst.If:
    """A statement where there is CUDA only."""
    block = cst.IndentedBlock([line.with_changes(leading_lines=[])])
    return cst.If(expression(place.has_cuda()), block, otherwise, leading_lines=line.leading_lines)


def arguments(code: str) -> list[cst.Arg]:
    """``code`` as the arguments of a call."""
    call = cst.parse_expression(f"f({code})")
    assert isinstance(call, cst.Call)
    return list(call.args)


def bare(argument: cst.Arg) -> str:
    """The code of an argument, without the comma behind it."""
    return code_of(argument.with_changes(comma=cst.MaybeSentinel.DEFAULT)).strip()


def as_to(call: cst.Call, *args: cst.Arg | str) -> cst.Call:
    """``x.cuda(…)``, ``x.type(…)`` and their like as ``x.to(…)``; a text is the code of an argument."""
    made = [arguments(given)[0] if isinstance(given, str) else given for given in args]
    comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    made[:-1] = [
        made_argument if isinstance(made_argument.comma, cst.Comma) else made_argument.with_changes(comma=comma)
        for made_argument in made[:-1]
    ]
    return call.with_changes(func=call.func.with_changes(attr=cst.Name("to")), args=made)


def receiver(call: cst.Call) -> cst.BaseExpression:
    """What a method is called of."""
    return cst.ensure_type(call.func, cst.Attribute).value


def asks(node: cst.CSTNode, place: Place) -> bool:
    """Whether an expression is ``torch.cuda.is_available()``."""
    return isinstance(node, cst.Call) and place.qualified(node.func) == ASKED


def mentions_cuda(node: cst.CSTNode) -> bool:
    """Whether a condition is about CUDA: it asks for it, or compares a device with it."""
    code = code_of(node)
    return "cuda.is_available" in code or "cuda.device_count" in code or _COMPARES.search(code) is not None


def mentions_mac(node: cst.CSTNode) -> bool:
    return MAC.search(code_of(node)) is not None


def widened(node: cst.BaseExpression, place: Place) -> cst.BaseExpression | None:
    """A condition that asks for CUDA and not for MPS, true on MPS too; ``None`` for any other one."""
    if mentions_mac(node) or "cuda.is_available" not in code_of(node):
        return None

    if asks(node, place):
        return expression(f"{code_of(node)} or {place.has_mps()}", node)
    asked = m.Call(func=m.MatchIfTrue(lambda function: place.qualified(function) == ASKED))
    made = m.replace(node, asked, lambda node, _: expression(f"({code_of(node)} or {place.has_mps()})"))
    assert isinstance(made, cst.BaseExpression)
    return made


def guarded(place: Place) -> bool:
    """Whether the node is where only CUDA is, or where MPS has its own way: in a branch of a condition about it."""
    below: cst.CSTNode | None = None
    for node in reversed([*place.around, place.original]):
        if isinstance(node, (cst.If, cst.IfExp)) and below is not None and below is not node.test:
            if node not in place.known:
                place.known[node] = mentions_cuda(node.test) or _says(node.test, place), mentions_mac(node.test)
            cuda, mac = place.known[node]
            if below is node.body and (
                mac or (cuda and not (isinstance(node, cst.If) and place.line(node) in place.widened))
            ):
                return True
        if isinstance(node, (cst.FunctionDef, cst.Lambda)):
            return False
        below = node
    return False


def _says(test: cst.BaseExpression, place: Place) -> bool:
    """Whether a condition asks a name that is true with CUDA only."""
    parts = [test.left, test.right] if isinstance(test, cst.BooleanOperation) else [test]
    return any(name_of(part) in place.facts.asked - place.facts.flags for part in parts)


def name_of(node: cst.CSTNode) -> str | None:
    """As ``facts.last_name``."""
    named = isinstance(node, (cst.Name, cst.Attribute, cst.Subscript, cst.Call))
    return last_name(ast.parse(f"({code_of(node)})", mode="eval").body) if named else None


def conditional(
    cuda: str, otherwise: str, place: Place, template: cst.BaseExpression, argument: bool = False
) -> cst.BaseExpression:
    """``cuda`` where there is CUDA, else ``otherwise``; in parentheses where its neighbours could take a part of it,
    which they cannot where it is an ``argument`` of the node that is looked at.
    """
    code = f"{cuda} if {place.has_cuda()} else {otherwise}"
    parent = place.parent()
    alone = argument or isinstance(
        parent, (cst.Arg, cst.Assign, cst.AnnAssign, cst.Return, cst.Expr, cst.Param, cst.DictElement, cst.WithItem)
    )
    return expression(code if alone else f"({code})", template)
