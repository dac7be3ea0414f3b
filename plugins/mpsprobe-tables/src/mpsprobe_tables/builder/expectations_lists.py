"""``common_mps.py`` of a macOS wheel → the lists of entries that PyTorch expects to fail, or skips, on MPS.

Each of its functions builds lists and then gives every OpInfo entry the decorators that they ask for. Both halves are
read: the second says which list is for failures and which for skips, and which hold only on an old macOS.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field

from mpsprobe_tables.builder.expectations_syntax import Reader

MEMBER = "torch/testing/_internal/common_mps.py"
FORWARD = "mps_ops_modifier"
GRADIENT = "mps_ops_grad_modifier"
ERROR_INPUTS = "mps_ops_error_inputs_modifier"
COMPLEX = frozenset({"complex32", "complex64"})
NEVER_ON_MPS = frozenset({"float64", "complex128"})

Dtypes = frozenset[str] | None
"""``None`` for every dtype."""


@dataclass
class Modifier:
    """What one function of the file does to the entries.

    Attributes:
        kinds: name of a list → ``fail`` or ``skip``; in the order of the file.
        lists: name of a list → entry → dtypes.
        supported_complex, unsupported_complex: entries that pass, or fail, with complex dtypes; ``None`` where the
            function does not say it that way round.
    """

    kinds: dict[str, str] = field(default_factory=dict)
    lists: dict[str, dict[str, Dtypes]] = field(default_factory=dict)
    supported_complex: frozenset[str] | None = None
    unsupported_complex: frozenset[str] | None = None


def read_lists(module: ast.Module) -> dict[str, Modifier]:
    """Name of each function of the file → what it does; the ``else`` branch for builds without MPS is not part of it.

    Raises:
        TableError: a form is not known.
    """
    reader = Reader(MEMBER)
    found: dict[str, Modifier] = {}
    for node in module.body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "torch.backends.mps.is_available()":
            for function in node.body:
                if not isinstance(function, ast.FunctionDef):
                    raise reader.error(function, "a function that changes entries")
                if function.name not in (FORWARD, GRADIENT, ERROR_INPUTS):
                    raise reader.error(function, "a function that changes entries")
                found[function.name] = _Function(reader).read(function)
        elif not isinstance(node, ast.Import | ast.ImportFrom):
            raise reader.error(node, "a statement of the file")
    for name in (FORWARD, GRADIENT):
        if name not in found:
            raise reader.error(module, f"there is no {name}")
    return found


class _Function:
    """One function while it is read, statement by statement."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.lists: dict[str, dict[str, Dtypes]] = {}
        self.made = Modifier()

    def read(self, function: ast.FunctionDef) -> Modifier:
        self._build(function.body)
        # A list that is built and never looked at would be one whose use this reader has missed.
        read = {node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
        for name in self.lists:
            if name not in read:
                raise self.reader.error(function, f"what {name} is for")
        return self.made

    def _build(self, body: Iterable[ast.stmt]) -> None:
        for statement in body:
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    self.lists[name] = self._list(value)
                case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                    self.lists[name] = self._list(value)
                case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="update"), args=[value])):
                    self.lists[name].update(self._list(value))
                case ast.If(test=test, orelse=[]) if ast.unparse(test) in ("xfail_exclusion is None", "sparse"):
                    pass  # an argument's default; what is for sparse tensors alone
                case ast.If(test=test, body=then, orelse=otherwise):
                    self._build(then if self.reader.condition(test) else otherwise)
                case ast.FunctionDef(name="addDecorator") | ast.Return(value=ast.Name(id="ops")):
                    pass
                case ast.For(target=ast.Name(id="op"), iter=ast.Name(id="ops"), body=loop, orelse=[]):
                    for inner in loop:
                        self._apply(inner)
                case _:
                    raise self.reader.error(statement, "a statement that builds a list")

    def _list(self, node: ast.expr) -> dict[str, Dtypes]:
        """A dict of entries to dtypes, or a set of entries, which stands for every dtype; or a name of one."""
        match node:
            case ast.Dict(keys=keys, values=values):
                made = {}
                for key, value in zip(keys, values, strict=True):
                    if key is None:
                        raise self.reader.error(node, "a list of entries")
                    made[self.reader.text(key)] = self.reader.dtypes(value)
                return made
            case ast.Set(elts=elements):
                return {self.reader.text(element): None for element in elements}
            case ast.Name(id=name) if name in self.lists:
                return self.lists[name]
        raise self.reader.error(node, "a list of entries")

    def _apply(self, statement: ast.stmt) -> None:
        match statement:
            case ast.Assign(targets=[ast.Name(id="key")]):
                if ast.unparse(statement) != "key = op.name + op.variant_test_name":
                    raise self.reader.error(statement, "how an entry is named")
            case ast.If(test=ast.Name(id="sparse"), orelse=[]):
                pass
            case ast.Expr():
                _, dtypes = self._decorator([statement])
                if self.reader.dtypes(dtypes) != NEVER_ON_MPS:
                    raise self.reader.error(statement, "a decorator for every entry")
            case ast.For(target=ast.Name(id=variable), iter=ast.List(elts=lists), body=[ast.If() as inner], orelse=[]):
                for one in lists:
                    if not isinstance(one, ast.Name):
                        raise self.reader.error(one, "a list that is applied")
                    self._apply_one(inner, {variable: one.id})
            case ast.If():
                self._apply_one(statement, {})
            case _:
                raise self.reader.error(statement, "a statement that applies a list")

    def _apply_one(self, statement: ast.If, renamed: dict[str, str]) -> None:
        if statement.orelse:
            raise self.reader.error(statement, "a statement that applies a list")
        inside: list[str] = []
        outside: list[str] = []
        holds = self._membership(statement.test, inside, outside)
        if not holds:
            return
        kind, dtypes = self._decorator(statement.body)
        names = [renamed.get(name, name) for name in inside]
        match dtypes:
            case ast.Subscript(value=ast.Name(id=listed), slice=ast.Name(id="key")) if len(names) == 1 and not outside:
                if renamed.get(listed, listed) == names[0]:
                    self._add(statement, names[0], kind)
                    return
            case ast.Constant(value=None) if len(names) == 1 and not outside:
                self._add(statement, names[0], kind)
                return
            case ast.List() if self.reader.dtypes(dtypes) == COMPLEX and kind == "fail":
                if outside and not inside:
                    self.made.supported_complex = frozenset().union(*(self.lists[name] for name in outside))
                    return
                if len(inside) == 1 and not outside:
                    self.made.unsupported_complex = frozenset(self.lists[inside[0]])
                    return
        raise self.reader.error(statement, "a statement that applies a list")

    def _add(self, statement: ast.If, name: str, kind: str) -> None:
        if name not in self.lists or name in self.made.lists:
            raise self.reader.error(statement, "a list that is applied")
        # An empty list of dtypes holds for none of them.
        self.made.lists[name] = {key: found for key, found in self.lists[name].items() if found is None or found}
        self.made.kinds[name] = kind

    def _membership(self, test: ast.expr, inside: list[str], outside: list[str]) -> bool:
        """Collect the lists that ``test`` looks an entry up in; whether the rest of it holds on the newest macOS."""
        match test:
            case ast.Compare(left=ast.Name(id="key"), ops=[op], comparators=[ast.Name(id=name)]):
                if isinstance(op, ast.In):
                    inside.append(name)
                    return True
                if isinstance(op, ast.NotIn):
                    if name != "xfail_exclusion":
                        outside.append(name)
                    return True
            case ast.BoolOp(op=ast.And(), values=values):
                parts = [self._membership(value, inside, outside) for value in values]
                return all(parts)
            case ast.BoolOp(op=ast.Or(), values=[ast.Compare(left=ast.Name(id="key")) as member, other]):
                # ``key not in LIST or MACOS_VERSION < 14.0``: the list counts where the rest does not hold.
                if not self.reader.condition(other):
                    return self._membership(member, inside, outside)
        return self.reader.condition(test)

    def _decorator(self, body: list[ast.stmt]) -> tuple[str, ast.expr]:
        """Kind and dtypes of ``addDecorator(op, DecorateInfo(kind, dtypes=…))``."""
        match body:
            case [
                ast.Expr(
                    value=ast.Call(
                        func=ast.Name(id="addDecorator"),
                        args=[
                            ast.Name(id="op"),
                            ast.Call(func=ast.Name(id="DecorateInfo"), args=[what], keywords=keywords),
                        ],
                        keywords=[],
                    )
                )
            ] if {keyword.arg for keyword in keywords} <= {"dtypes"}:
                kind = decorator_kind(what)
                if kind is not None:
                    return kind, keywords[0].value if keywords else ast.Constant(value=None)
        raise self.reader.error(body[0], "a decorator")


def decorator_kind(node: ast.expr) -> str | None:
    """``fail`` for ``unittest.expectedFailure``, ``skip`` for ``unittest.skip`` with or without a reason, else None."""
    function = node.func if isinstance(node, ast.Call) else node
    return {"unittest.expectedFailure": "fail", "unittest.skip": "skip"}.get(ast.unparse(function))
