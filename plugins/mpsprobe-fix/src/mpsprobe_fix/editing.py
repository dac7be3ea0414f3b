"""One file with its edits: a walk over its nodes that keeps what is around them, and what edits need at its head."""

from __future__ import annotations

import ast
import bisect
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import libcst as cst
from libcst.metadata import CodeRange, MetadataWrapper, PositionProvider

from mpsprobe_fix.facts import MAC, Facts, conditions, run_at_import
from mpsprobe_fix.rule import PACKAGES, Edit, Rule

WORDS = re.compile(
    r"cuda|nccl|float64|double|complex128|pin_memory|num_workers|8bit|load_in_|tf32|flash|torch\.compile|autocast|"
    rf"GradScaler|DataParallel|DDP\b|device_ids|deepspeed|\.to\(\s*\d|device=\d|torch\.load|{'|'.join(sorted(PACKAGES))}"
)
"""What a line has where a rule has something to say."""
KEEP = "# mpsprobe: keep"
DECIDE = "# mpsprobe: decide: "
MPS = "torch.backends.mps.is_available()"
_NO_CODE = cst.Module([])
_IMPORTS = (cst.Import, cst.ImportFrom)
_STATEMENTS = (cst.SimpleStatementLine, cst.BaseCompoundStatement)
_DEFINITIONS = (cst.FunctionDef, cst.ClassDef)
_HEADS = (cst.Try, cst.If, cst.With)


@dataclass(frozen=True)
class Change:
    """One edit, or what a person has to decide: ``text`` says what."""

    rule: str
    file: str
    line: int
    text: str = ""


@dataclass
class Edited:
    """What became of a file."""

    code: str
    changes: list[Change]
    decisions: list[Change]


def code_of(node: cst.CSTNode) -> str:
    return _NO_CODE.code_for_node(node)


def expression(code: str, template: cst.BaseExpression | None = None) -> cst.BaseExpression:
    """``code`` as an expression, in the parentheses of the one whose place it takes."""
    made = cst.parse_expression(code)
    return made.with_changes(lpar=template.lpar, rpar=template.rpar) if template is not None and template.lpar else made


def edit(code: str, file: str, facts: Facts, rules: Iterable[Rule], seen: Mapping[int, Any] | None = None) -> Edited:
    """``code`` after the edits of ``rules``; ``seen`` has what a run found, by line.

    Raises:
        libcst.ParserSyntaxError: it is no Python of a version that libcst reads.
    """
    wrapper = MetadataWrapper(cst.parse_module(code), unsafe_skip_copy=True)
    place = Place(wrapper, code, file, facts, seen or {})
    table: dict[type[cst.CSTNode], list[tuple[str, Edit]]] = {}
    for one in rules:
        for kind, change in one.edits:
            table.setdefault(kind, []).append((one.name, change))
    module = wrapper.module.visit(_Walk(place, table))
    return Edited(place.with_head(module).code, place.changes, place.decisions)


@dataclass
class _Pending:
    texts: list[str] = field(default_factory=list)


class Place:
    """Where a node stands, for the rules: names, what is around it, what the head of the file shall have."""

    def __init__(self, wrapper: Any, code: str, file: str, facts: Facts, seen: Mapping[int, Any]) -> None:
        self.file = file
        self.facts = facts
        self.seen = seen
        self.changes: list[Change] = []
        self.decisions: list[Change] = []
        self.around: list[cst.CSTNode] = []
        self.handled: set[tuple[int, str]] = set()
        self.original: Any = None
        self.rule = ""
        self.module: cst.Module = wrapper.module
        self._positions: Mapping[cst.CSTNode, CodeRange] = wrapper.resolve(PositionProvider)
        lines = re.split(r"\r\n|\r|\n", code)
        tree = ast.parse(code)
        self._widened, self._with_mac = conditions(tree)
        self.knows_mac = MAC.search(code) is not None
        self.known: dict[int, tuple[bool, bool]] = {}
        self._kept = {number for number, line in enumerate(lines, 1) if KEEP in line}
        self._decided = {line.strip() for line in lines if DECIDE in line}
        self.names = imported(tree)
        self.at_import = run_at_import(tree)
        ours = [re.escape(one) for one, full in self.names.items() if WORDS.search(full)]
        words = re.compile("|".join([WORDS.pattern, *ours, *map(re.escape, (*facts.settings, *facts.types))]))
        self._met = sorted({*seen, *(number for number, line in enumerate(lines, 1) if words.search(line))})
        found = [alias for alias, name in self.names.items() if name == "torch"]
        self._torch = found[0] if found else "torch"
        self._needs_torch = False
        self._heads: dict[str, str] = {}
        self._first_use: int | None = None
        self._pending = _Pending()

    # What rules ask.

    def qualified(self, node: cst.CSTNode) -> str | None:
        """The full name of what an expression names, by the imports of the file: ``torch.cuda.amp.autocast``."""
        parts: list[str] = []
        while isinstance(node, cst.Attribute):
            parts.append(node.attr.value)
            node = node.value
        if not isinstance(node, cst.Name) or node.value not in self.names:
            return None
        return ".".join([self.names[node.value], *reversed(parts)])

    def line(self, node: cst.CSTNode) -> int:
        return self._positions[node].start.line

    def lines(self, node: cst.CSTNode) -> range:
        found = self._positions[node]
        return range(found.start.line, found.end.line + 1)

    def is_widened(self, node: cst.If | cst.IfExp) -> bool:
        """Whether a condition about CUDA is made true on MPS too, as its branch puts something on the device."""
        return isinstance(node, cst.If) and self.line(node) in self._widened

    def has_way(self, node: cst.If) -> bool:
        """Whether another branch next to this one is for a Mac."""
        return self.line(node) in self._with_mac

    def parent(self, distance: int = 1) -> cst.CSTNode | None:
        return self.around[-distance] if len(self.around) >= distance else None

    def inside(self, kind: type[cst.CSTNode]) -> bool:
        return any(isinstance(one, kind) for one in self.around)

    @property
    def torch(self) -> str:
        """What the file calls torch; it is imported at the head where it is not."""
        self._needs_torch = True
        self._used()
        return self._torch

    def has_cuda(self) -> str:
        return f"{self.torch}.cuda.device_count() > 0" if self.facts.early else f"{self.torch}.cuda.is_available()"

    def choice(self, cuda: str = "cuda") -> str:
        """The device as an expression, a text: ``cuda`` where there is one, else MPS, else the CPU."""
        mps = f"{self.torch}.backends.mps.is_available()"
        return f'"{cuda}" if {self.has_cuda()} else "mps" if {mps} else "cpu"'

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
            self._pending.texts.append(comment)

    def withdraw(self, word: str) -> None:
        """Take back what was to be decided about ``word`` in this statement: a rule has an answer after all."""
        line = self.line(self.original)
        self.decisions[:] = [one for one in self.decisions if word not in one.text or one.line != line]
        self._decided -= {one for one in self._pending.texts if word in one}
        self._pending.texts[:] = [one for one in self._pending.texts if word not in one]

    def head(self, name: str, code: str) -> None:
        """Have ``code``, which defines ``name``, at the head of the file."""
        self._used()
        if not any(name in _defined(one) for one in self.module.body):
            self._heads.setdefault(name, code)

    # What the walk does.

    def concerns(self, node: cst.CSTNode) -> bool:
        """Whether a line of the node has a word that rules are about; they are not asked about other statements."""
        first = (*getattr(node, "decorators", ()), node)[0]
        at = bisect.bisect_left(self._met, self.line(first))
        return at < len(self._met) and self._met[at] <= self._positions[node].end.line

    def kept(self, node: cst.CSTNode) -> bool:
        found = self._positions.get(node)
        if found is None or not self._kept:
            return False
        compound = isinstance(node, cst.BaseCompoundStatement)
        return not self._kept.isdisjoint(
            range(found.start.line, found.start.line + 1 if compound else found.end.line + 1)
        )

    def with_comments(self, statement: Any) -> Any:
        """``statement`` with the comments for a person that its parts asked for."""
        if not self._pending.texts:
            return statement
        texts, self._pending = self._pending.texts, _Pending()
        lines = [cst.EmptyLine(comment=cst.Comment(text)) for text in texts]
        if isinstance(statement, cst.FlattenSentinel):
            first, *rest = statement
            return cst.FlattenSentinel([first.with_changes(leading_lines=[*first.leading_lines, *lines]), *rest])
        return statement.with_changes(leading_lines=[*statement.leading_lines, *lines])

    def with_head(self, module: cst.Module) -> cst.Module:
        wanted = sorted(
            self._heads.values(), key=lambda code: (code.startswith(("def ", "class ")), " = " in code.split("\n")[0])
        )
        at = self._head_end(module)
        bound = {name for one in self.module.body[:at] for name in _bound_by(one)}
        if self._needs_torch and not (self._torch in bound and self.names.get(self._torch) == "torch"):
            wanted.insert(0, "import torch" if self._torch == "torch" else f"import torch as {self._torch}")
        if not wanted:
            return module
        config = module.config_for_parsing
        body = [one for code in wanted for one in cst.parse_module(code + "\n", config).body]
        if at == 0 and module.body:
            body[0] = body[0].with_changes(leading_lines=[])
        following = list(module.body[at:])
        if following and isinstance(body[-1], _DEFINITIONS):
            missing = 2 - len([one for one in following[0].leading_lines if one.comment is None])
            lines = [*[cst.EmptyLine(indent=False)] * max(missing, 0), *following[0].leading_lines]
            following[0] = following[0].with_changes(leading_lines=lines)
        for number, one in enumerate(body):
            before = body[number - 1] if number else module.body[at - 1] if at else None
            function = isinstance(one, _DEFINITIONS) or isinstance(before, _DEFINITIONS)
            count = 2 if function else int(before is not None and _is_import(before))
            if before is not None and count and not _is_import(one):
                body[number] = one.with_changes(leading_lines=[cst.EmptyLine(indent=False)] * count)
        return module.with_changes(body=[*module.body[:at], *body, *following])

    def _head_end(self, module: cst.Module) -> int:
        """Behind the imports that come with that of torch, and before the first statement that needs the head."""
        body = self.module.body
        start = 0
        for number, one in enumerate(body):
            if any(self.names.get(name, "").split(".")[0] == "torch" for name in _bound_by(one)):
                start = number
                break
        end = start
        for number in range(start, len(body)):
            one = body[number]
            if _is_import(one) or (number == 0 and _is_text(one)):
                end = number + 1
            elif not (isinstance(one, _HEADS) and _bound_by(one)):
                break
            else:
                end = number + 1
        if self._first_use is not None:
            end = min(end, self._first_use)
        return end

    def _constant(self, name: str, value: str) -> str:
        code = f"{name} = {value}"
        while any(name in _defined(one) and code_of(one).strip() != code for one in self.module.body):
            name = f"MPS_OR_{name}"
            code = f"{name} = {value}"
        self.head(name, code)
        return name

    def _used(self) -> None:
        top = self.around[1] if len(self.around) > 1 else self.original
        if top in self.module.body:
            number = self.module.body.index(top)
            self._first_use = number if self._first_use is None else min(self._first_use, number)


class _Walk(cst.CSTTransformer):
    """Asks the rules about each node, from the leaves up."""

    def __init__(self, place: Place, table: Mapping[type[cst.CSTNode], list[tuple[str, Edit]]]) -> None:
        super().__init__()
        self._place = place
        self._table = table

    def on_visit(self, node: cst.CSTNode) -> bool:
        self._place.around.append(node)
        return not isinstance(node, _STATEMENTS) or self._place.concerns(node)

    def on_leave(self, original: Any, updated: Any) -> Any:
        place = self._place
        place.around.pop()
        result = updated
        rules = self._table.get(type(original))
        if isinstance(original, _STATEMENTS) and not place.concerns(original):
            return updated
        if rules and not place.kept(original):
            place.original = original
            for name, change in rules:
                place.rule = name
                made = change(result, place)
                if made is not None:
                    place.changes.append(Change(name, place.file, place.line(original)))
                    result = made
                    if type(result) is not type(original):
                        break
        if isinstance(original, _STATEMENTS):
            return place.with_comments(result)
        return result


def imported(tree: ast.Module) -> dict[str, str]:
    """Every name that an import anywhere in the file binds, with what it names; none that is also assigned. A file that
    only uses ``torch`` has it from an import of everything, or from another cell.
    """
    names = {"torch": "torch"}
    others: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names.update(_bound(node))
        elif isinstance(node, ast.arg):
            others.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            others.add(node.id)
    return {name: full for name, full in names.items() if name not in others}


def _bound(node: ast.Import | ast.ImportFrom) -> dict[str, str]:
    if isinstance(node, ast.ImportFrom):
        module = f"{'.' * node.level}{node.module or ''}"
        return {one.asname or one.name: f"{module}.{one.name}" for one in node.names}
    return {
        one.asname or one.name.split(".")[0]: one.name if one.asname else one.name.split(".")[0] for one in node.names
    }


def _bound_by(statement: cst.CSTNode) -> list[str]:
    """Names that imports of a statement bind, also in a ``try``."""
    if not isinstance(statement, (cst.SimpleStatementLine, *_HEADS)):
        return []
    nodes = ast.walk(ast.parse(code_of(statement)))
    return [name for one in nodes if isinstance(one, (ast.Import, ast.ImportFrom)) for name in _bound(one)]


def _is_import(statement: cst.CSTNode) -> bool:
    return isinstance(statement, cst.SimpleStatementLine) and all(isinstance(one, _IMPORTS) for one in statement.body)


def _is_text(statement: cst.CSTNode) -> bool:
    return (
        isinstance(statement, cst.SimpleStatementLine)
        and isinstance(statement.body[0], cst.Expr)
        and isinstance(statement.body[0].value, (cst.SimpleString, cst.ConcatenatedString))
    )


def _defined(statement: cst.CSTNode) -> set[str]:
    if isinstance(statement, _DEFINITIONS):
        return {statement.name.value}
    if isinstance(statement, cst.SimpleStatementLine):
        targets = [target.target for one in statement.body if isinstance(one, cst.Assign) for target in one.targets]
        return {target.value for target in targets if isinstance(target, cst.Name)}
    return set()
