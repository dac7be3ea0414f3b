"""``common_modules.py`` of a macOS wheel → the marks of PyTorch's database of modules that say something of MPS.

``module_db`` is a list of calls of ``ModuleInfo``. Each is read where it stands; nothing is imported or run.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mpsprobe.errors import TableError
from mpsprobe_tables.builder.expectations_syntax import Reader
from mpsprobe_tables.builder.python_sources import parse
from mpsprobe_tables.builder.wheel import Wheel
from mpsprobe_tables.module_marks import FORWARD_TEST, GRADIENT_TEST, TEST_CLASS, Mark, Mode, ModuleMarks

MEMBER = "torch/testing/_internal/common_modules.py"
_DATABASE = "module_db"
_IDLE_CLASS = f"{TEST_CLASS}MPS"
_KINDS = {
    "unittest.expectedFailure": "fail",
    "expectedFailureMPS": "fail",
    "unittest.skip": "skip",
    "skipMPS": "skip",
    "skipIfMPS": "skip",
    "skipIfMps": "skip",
}
_FOR_MPS = ("expectedFailureMPS", "skipMPS")
"""Decorators that say that MPS is tested, and what it does."""
_TRAINING = ("operator.itemgetter('training')", "lambda p: p['training']")
_HALF_OR_SINGLE = ("float16", "float32")


def has_module_marks(wheel: Wheel) -> bool:
    """Whether the tests of the wheel's database run on Macs: torch 2.1.0 and later."""
    return wheel.library == "torch" and wheel.has(MEMBER) and any(name in wheel.text(MEMBER) for name in _FOR_MPS)


def read_module_marks(wheel: Wheel) -> ModuleMarks:
    """What the wheel's entries say.

    Raises:
        TableError: the file is absent, or is written in a form that is not known; the message names file and line.
    """
    module = parse(wheel.text(MEMBER), MEMBER)
    return ModuleMarks(wheel.release, wheel.path.name, wheel.sha256, *_Database(module).read())


class _Database:
    """The file while it is read."""

    def __init__(self, module: ast.Module) -> None:
        self.module = module
        self.reader = Reader(MEMBER)
        self.defined = {
            node.targets[0].id: node.value
            for node in module.body
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        }

    def read(self) -> tuple[tuple[str, ...], dict[str, tuple[Mark, ...]]]:
        """The dtypes that are tested on MPS, and module → marks."""
        entries = [
            node.value
            for node in self.module.body
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == _DATABASE
        ]
        if len(entries) != 1 or not isinstance(entries[0], ast.List):
            raise TableError(f"{MEMBER} has no list {_DATABASE}, or several", "Download the wheel again.")
        modules: dict[str, tuple[Mark, ...]] = {}
        for entry in entries[0].elts:
            match entry:
                case ast.Call(func=ast.Name(id="ModuleInfo"), args=[ast.Attribute() as named], keywords=keywords):
                    name = ast.unparse(named).removeprefix("torch.")
                    decorators = (one.value for one in keywords if one.arg in ("skips", "decorators"))
                    modules[name] = tuple(mark for node in decorators for mark in self._marks(node))
                case _:
                    raise self.reader.error(entry, "an entry")
        return self._dtypes(), modules

    def _dtypes(self) -> tuple[str, ...]:
        """The default of ``dtypesIfMPS``; before there was one, what is common to ``dtypes`` and MPS."""
        for node in ast.walk(self.module):
            if isinstance(node, ast.FunctionDef) and node.name == "__init__":
                defaults = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
                given = {argument.arg: default for argument, default in defaults if default is not None}
                default = given.get("dtypesIfMPS", given.get("dtypes"))
                if default is not None:
                    dtypes = self.reader.dtypes(default) or frozenset()
                    return tuple(sorted(dtypes.intersection(_HALF_OR_SINGLE)))
        raise self.reader.error(self.module, "dtypes of a module")

    def _marks(self, node: ast.expr) -> Iterator[Mark]:
        """Those of a tuple, a list, a name that stands for such, or a choice between such."""
        match node:
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                for element in elements:
                    yield from self._marks(element)
            case ast.IfExp(test=test, body=then, orelse=otherwise):
                yield from self._marks(then if self.reader.condition(test) else otherwise)
            case ast.Name(id=name) if name in self.defined:
                yield from self._marks(self.defined[name])
            case ast.Call(func=ast.Name(id="DecorateInfo")):
                yield from self._mark(node)
            case ast.Constant(value=None) | ast.Name() | ast.Attribute():
                return
            case _:
                raise self.reader.error(node, "decorators of an entry")

    def _mark(self, node: ast.Call) -> Iterator[Mark]:
        """``DecorateInfo(decorator, class, test, device_type=…, dtypes=…, active_if=…)``, where it may act on MPS."""
        given = dict(zip(("decorator", "cls_name", "test_name"), node.args, strict=False))
        given.update({keyword.arg: keyword.value for keyword in node.keywords if keyword.arg is not None})
        decorator = given["decorator"]
        kind = _KINDS.get(ast.unparse(decorator.func if isinstance(decorator, ast.Call) else decorator))
        in_class, test, device = (self._text(given.get(name)) for name in ("cls_name", "test_name", "device_type"))
        if kind is None or device not in (None, "mps") or in_class not in (None, TEST_CLASS, _IDLE_CLASS):
            return
        if test not in (None, FORWARD_TEST, GRADIENT_TEST):
            return
        mode, active = self._active(given.get("active_if"))
        if active:
            dtypes = self.reader.dtypes(given["dtypes"]) if "dtypes" in given else None
            named = None if dtypes is None else tuple(sorted(dtypes.intersection(_HALF_OR_SINGLE)))
            if named != ():
                yield Mark(kind, in_class or TEST_CLASS, test, named, mode)

    def _text(self, node: ast.expr | None) -> str | None:
        return None if node is None or ast.unparse(node) == "None" else self.reader.text(node)

    def _active(self, node: ast.expr | None) -> tuple[Mode | None, bool]:
        """The mode that a mark is for, and whether it holds on the newest Mac."""
        if node is None:
            return None, True
        if ast.unparse(node) in _TRAINING:
            return "train", True
        if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And) and ast.unparse(node.values[0]) in _TRAINING:
            # A function is true, so that what follows decides, once, and in both modes.
            return None, all(self.reader.condition(value) for value in node.values[1:])
        return None, self.reader.condition(node)
