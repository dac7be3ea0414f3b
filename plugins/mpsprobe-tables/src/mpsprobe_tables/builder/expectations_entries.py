"""OpInfo entries of a macOS wheel → the dtypes that they claim for MPS, and the decorators for the consistency test.

``common_methods_invocations.py`` and the files under ``opinfo/definitions`` hold lists ``op_db`` of constructor
calls. A call is read where it stands; a comprehension over constants is read once for each of them. A call of a helper
function cannot be: where neither the call nor the helper speaks of MPS nothing is lost, else the entry is counted as
unread.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from mpsprobe.errors import TableError
from mpsprobe_tables.builder.expectations_lists import NEVER_ON_MPS, decorator_kind
from mpsprobe_tables.builder.expectations_syntax import Names, Reader

TEST_CLASS = "TestConsistency"
CONSTRUCTORS = frozenset(
    {"OpInfo", "UnaryUfuncInfo", "BinaryUfuncInfo", "ReductionOpInfo", "SpectralFuncInfo", "ShapeFuncInfo"}
)
ELSEWHERE = ("onlyCUDA", "onlyCPU")
"""Decorators that skip a test on MPS whatever the dtype."""

Decorator = tuple[str, str | None, frozenset[str] | None]
"""``fail`` or ``skip``, test or ``None`` for all of them, dtypes or ``None`` for all of them."""


@dataclass
class Entries:
    """What the entries say; keys are ``op.name + op.variant_test_name``.

    Attributes:
        names: every entry that was read.
        claimed: dtypes that MPS is tested with, where the entry gives them.
        claimed_backward: the same for gradients.
        decorators: what decorates the consistency tests on MPS.
        elsewhere: names or variants of entries that a helper function makes.
        unread: entries whose construction cannot be read and that speak of MPS, as source text.
    """

    names: set[str] = field(default_factory=set)
    claimed: dict[str, frozenset[str]] = field(default_factory=dict)
    claimed_backward: dict[str, frozenset[str]] = field(default_factory=dict)
    decorators: dict[str, tuple[Decorator, ...]] = field(default_factory=dict)
    elsewhere: set[str] = field(default_factory=set)
    unread: set[str] = field(default_factory=set)


def read_entries(module: ast.Module, file: str, found: Entries) -> None:
    """Add the entries of ``op_db`` in ``module`` to ``found``.

    Raises:
        TableError: the file has no ``op_db``, or a form in it is not known.
    """
    reading = _File(Reader(file), module, found)
    databases = [
        node.value
        for node in module.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == "op_db"
    ]
    if len(databases) != 1 or not isinstance(databases[0], ast.List):
        raise TableError(f"{file} has no list op_db, or several", "Download the wheel again.")
    for element in databases[0].elts:
        reading.element(element)


class _File:
    """One file while it is read."""

    def __init__(self, reader: Reader, module: ast.Module, found: Entries) -> None:
        self.reader = reader
        self.found = found
        self.defined: dict[str, ast.stmt] = {}
        for node in module.body:
            match node:
                case ast.FunctionDef(name=name) | ast.Assign(targets=[ast.Name(id=name)]):
                    self.defined[name] = node

    def element(self, node: ast.expr) -> None:
        match node:
            case ast.Call(func=ast.Name(id=name)) if name in CONSTRUCTORS:
                self._entry(node, {})
            case ast.Call(func=ast.Name(id=name)):
                self._made_elsewhere(node, name)
            case ast.Starred(value=ast.GeneratorExp() | ast.ListComp() as loop):
                self._loop(loop)
            case _:
                raise self.reader.error(node, "an entry")

    def _made_elsewhere(self, node: ast.Call, helper: str) -> None:
        definition = self.defined.get(helper)
        for keyword in node.keywords:
            if keyword.arg in ("name", "variant_test_name"):
                self.found.elsewhere.add(self.reader.text(keyword.value))
        if definition is None or _speaks_of_mps(node) or _speaks_of_mps(definition):
            self.found.unread.add(ast.unparse(node)[:60])

    def _loop(self, loop: ast.GeneratorExp | ast.ListComp) -> None:
        match loop.generators:
            case [ast.comprehension(target=ast.Name(id=variable), iter=ast.Tuple() | ast.List() as values, ifs=[])] if (
                isinstance(loop.elt, ast.Call) and ast.unparse(loop.elt.func) in CONSTRUCTORS
            ):
                for value in values.elts:
                    self._entry(loop.elt, {variable: value})
            case _:
                if _speaks_of_mps(loop):
                    self.found.unread.add(ast.unparse(loop)[:60])

    def _entry(self, node: ast.Call, names: Names) -> None:
        keywords = {keyword.arg: keyword.value for keyword in node.keywords}
        if None in keywords:
            raise self.reader.error(node, "an entry")
        name = keywords.get("name") or (node.args[0] if node.args else None)
        if name is None:
            raise self.reader.error(node, "an entry without a name")
        variant = keywords.get("variant_test_name")
        key = self.reader.text(name, names) + ("" if variant is None else self.reader.text(variant, names))
        self.found.names.add(key)
        for keyword, target in (
            ("dtypesIfMPS", self.found.claimed),
            ("backward_dtypesIfMPS", self.found.claimed_backward),
        ):
            value = keywords.get(keyword)
            dtypes = None if value is None else self.reader.dtypes(value)
            if dtypes is not None:
                target[key] = dtypes - NEVER_ON_MPS
        decorators = tuple(
            decorator
            for keyword in ("skips", "decorators")
            if keyword in keywords
            for decorator in self._decorators(keywords[keyword])
        )
        if decorators:
            self.found.decorators[key] = decorators

    def _decorators(self, node: ast.expr) -> Iterator[Decorator]:
        """Those of a tuple, a list, a sum of such, a call or a name that stands for such."""
        match node:
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                for element in elements:
                    yield from self._decorator(element)
            case ast.BinOp(op=ast.Add(), left=left, right=right):
                yield from self._decorators(left)
                yield from self._decorators(right)
            case ast.Name(id=name) | ast.Call(func=ast.Name(id=name)) if name in self.defined:
                definition = self.defined[name]
                match definition:
                    case ast.Assign(value=value):
                        yield from self._decorators(value)
                    case ast.FunctionDef(body=[*_, ast.Return(value=ast.expr() as value)]) if not _speaks_of_mps(value):
                        return
                    case _:
                        raise self.reader.error(definition, "decorators of an entry")
            case ast.Call() | ast.Name() | ast.Attribute():
                yield from self._decorator(node)
            case _:
                raise self.reader.error(node, "decorators of an entry")

    def _decorator(self, node: ast.expr) -> Iterator[Decorator]:
        if isinstance(node, ast.Starred):
            yield from self._decorators(node.value)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "DecorateInfo":
            yield from self._information(node)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "onlyOn":
            if "'mps'" not in ast.unparse(node):
                yield "skip", None, None
        elif ast.unparse(node) in ELSEWHERE:
            yield "skip", None, None

    def _information(self, node: ast.Call) -> Iterator[Decorator]:
        """``DecorateInfo(decorator, class, test, device_type=…, dtypes=…, active_if=…)``."""
        given = dict(zip(("decorators", "cls_name", "test_name"), node.args, strict=False))
        given.update({keyword.arg: keyword.value for keyword in node.keywords if keyword.arg is not None})
        given = {name: value for name, value in given.items() if ast.unparse(value) != "None"}
        kind = decorator_kind(given["decorators"]) if "decorators" in given else None
        if kind is None:  # a tolerance, a skip on another backend
            return
        in_class = given.get("cls_name")
        if in_class is not None and self.reader.text(in_class) != TEST_CLASS:
            return
        device = given.get("device_type")
        if device is not None:
            devices = device.elts if isinstance(device, ast.Tuple | ast.List) else [device]
            if "mps" not in [self.reader.text(one) for one in devices]:
                return
        if "active_if" in given and not self.reader.condition(given["active_if"]):
            return
        test = given.get("test_name")
        dtypes = given.get("dtypes")
        yield (
            kind,
            None if test is None else self.reader.text(test),
            None if dtypes is None else self.reader.dtypes(dtypes),
        )


def _speaks_of_mps(node: ast.AST) -> bool:
    """Whether a keyword for MPS, its name as a device, or the consistency test stands anywhere in ``node``."""
    for part in ast.walk(node):
        if isinstance(part, ast.keyword) and part.arg is not None and part.arg.endswith("IfMPS"):
            return True
        if isinstance(part, ast.Constant) and part.value in ("mps", TEST_CLASS):
            return True
    return False
