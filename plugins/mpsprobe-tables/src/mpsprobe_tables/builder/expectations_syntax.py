"""Expressions of PyTorch's test sources, read from their syntax trees: dtypes, conditions, names.

Nothing is imported or run. What has another form than those below is a ``TableError`` that names file and line: an
entry that is silently lost would be an expectation that nobody sees.

Conditions are resolved for the newest macOS on a chip newer than the M1, as the rest of this package assumes macOS 15
or later: what PyTorch expects only before is left out.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping

from mpsprobe.errors import TableError

NEWEST_MACOS = 99.0
"""Conditions on ``MACOS_VERSION`` name versions that exist, so any number above them all stands for the newest."""

_ALIASES = {
    "half": "float16",
    "float": "float32",
    "double": "float64",
    "short": "int16",
    "int": "int32",
    "long": "int64",
    "chalf": "complex32",
    "cfloat": "complex64",
    "cdouble": "complex128",
}
_FLOATING = ("float32", "float64")
_COMPLEX = ("complex64", "complex128")
_INTEGRAL = ("uint8", "int8", "int16", "int32", "int64")
_FLOAT8 = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz")
_KNOWN = frozenset(
    {
        *_FLOATING,
        *_COMPLEX,
        *_INTEGRAL,
        *_FLOAT8,
        "bool",
        "float16",
        "bfloat16",
        "complex32",
        "uint16",
        "uint32",
        "uint64",
    }
)
_FAMILIES: dict[str, tuple[str, ...]] = {
    "empty_types": (),
    "floating_types": _FLOATING,
    "floating_types_and_half": (*_FLOATING, "float16"),
    "floating_and_complex_types": (*_FLOATING, *_COMPLEX),
    "integral_types": _INTEGRAL,
    "all_types": (*_FLOATING, *_INTEGRAL),
    "all_types_and_half": (*_FLOATING, *_INTEGRAL, "float16"),
    "complex_types": _COMPLEX,
    "all_types_and_complex": (*_FLOATING, *_INTEGRAL, *_COMPLEX),
    "custom_types": (),
    "all_types_complex_float8": (*_FLOATING, *_INTEGRAL, *_COMPLEX, *_FLOAT8),
}
"""What torch/testing/_internal/common_dtype.py calls sets of dtypes; each name with ``_and`` takes further dtypes."""
_FLAGS = {
    "IS_APPLE_M1": False,
    "TEST_WITH_ROCM": False,
    "TEST_CUDNN": False,
    "IS_MACOS": True,
    "IS_WINDOWS": False,
    "TEST_WITH_ASAN": False,
    "_macos15_or_newer": True,
}
_COMPARISONS: dict[type[ast.cmpop], Callable[[float, float], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}

Names = Mapping[str, ast.expr]
"""What names stand for where an expression is read: the variable of a loop over constants."""


class Reader:
    """Reads expressions of one file; ``file`` is said in errors."""

    def __init__(self, file: str) -> None:
        self.file = file

    def error(self, node: ast.AST, what: str) -> TableError:
        """The error for a form that this reader does not know."""
        line = getattr(node, "lineno", "?")
        text = ast.unparse(node)
        shown = text if len(text) <= 80 else text[:79] + "…"
        return TableError(
            f"line {line} of {self.file} is not understood, {what}: {shown}",
            "The release writes its expectations in a new form: builder/expectations_*.py has to learn it.",
        )

    def text(self, node: ast.expr, names: Names | None = None) -> str:
        """A string: a constant, or a name or f-string made of names that stand for constants."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str | int):
            return str(node.value)
        if isinstance(node, ast.Name) and names and node.id in names:
            return self.text(names[node.id])
        if isinstance(node, ast.JoinedStr):
            return "".join(self.text(part, names) for part in node.values)
        if isinstance(node, ast.FormattedValue) and node.format_spec is None:
            return self.text(node.value, names)
        raise self.error(node, "a name")

    def dtype(self, node: ast.expr) -> str:
        """``torch.half`` → ``float16``."""
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "torch":
            name = _ALIASES.get(node.attr, node.attr)
            if name in _KNOWN:
                return name
        raise self.error(node, "a dtype")

    def dtypes(self, node: ast.expr) -> frozenset[str] | None:
        """A collection of dtypes, or ``None`` as it stands for every one."""
        if isinstance(node, ast.Constant) and node.value is None:
            return None
        if isinstance(node, ast.IfExp):
            return self.dtypes(node.body if self.condition(node.test) else node.orelse)
        if isinstance(node, ast.List | ast.Tuple | ast.Set):
            return frozenset(self.dtype(element) for element in node.elts)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            left, right = self.dtypes(node.left), self.dtypes(node.right)
            if left is not None and right is not None:
                return left | right
        if isinstance(node, ast.GeneratorExp):
            return self._filtered(node)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
            return self._family(node, node.func.id)
        raise self.error(node, "a collection of dtypes")

    def _family(self, node: ast.Call, name: str) -> frozenset[str] | None:
        if name == "_dispatch_dtypes" and len(node.args) == 1:
            return self.dtypes(node.args[0])
        further = frozenset(self.dtype(argument) for argument in node.args)
        family = _FAMILIES.get(name)
        if family is None and name.endswith("_and"):
            family = _FAMILIES.get(name.removesuffix("_and"))
        elif further and name != "custom_types":
            family = None
        if family is None:
            raise self.error(node, "a function that gives dtypes")
        return further | frozenset(family)

    def _filtered(self, node: ast.GeneratorExp) -> frozenset[str]:
        """``t for t in FAMILY if t != torch.int64``."""
        [loop] = node.generators if len(node.generators) == 1 else [None]
        if loop is None or ast.dump(loop.target).replace("Store", "Load") != ast.dump(node.elt):
            raise self.error(node, "a selection of dtypes")
        chosen = self.dtypes(loop.iter)
        if chosen is None:
            raise self.error(node, "a selection of dtypes")
        for test in loop.ifs:
            match test:
                case ast.Compare(left=left, ops=[ast.NotEq()], comparators=[other]) if ast.dump(left) == ast.dump(
                    node.elt
                ):
                    chosen -= {self.dtype(other)}
                case _:
                    raise self.error(test, "a selection of dtypes")
        return chosen

    def condition(self, node: ast.expr) -> bool:
        """Whether a condition on macOS, the chip or the build holds on the newest Mac."""
        match node:
            case ast.Constant(value=bool(value)):
                return value
            case ast.Name(id=name) if name in _FLAGS:
                return _FLAGS[name]
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return not self.condition(operand)
            case ast.BoolOp(op=ast.And(), values=values):
                parts = [self.condition(value) for value in values]  # all of them: each has to be understood
                return all(parts)
            case ast.BoolOp(op=ast.Or(), values=values):
                parts = [self.condition(value) for value in values]
                return any(parts)
            case ast.Lambda(body=body):
                return self.condition(body)
            case ast.Compare(
                left=ast.Name(id="MACOS_VERSION"), ops=[op], comparators=[ast.Constant(value=float(bound))]
            ):
                if type(op) in _COMPARISONS:
                    return _COMPARISONS[type(op)](NEWEST_MACOS, bound)
            case ast.Compare(left=ast.Name(id="ROCM_VERSION")):
                return False
            case ast.Call(func=func) if ast.unparse(func) == "torch.backends.mps.is_macos13_or_newer":
                return True
        raise self.error(node, "a condition")
