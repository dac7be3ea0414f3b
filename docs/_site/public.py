"""What a module offers to others: its public names, and what their docstrings say about each argument and field."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import itertools
import pkgutil
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

ENTRY = re.compile(r"^(\w+(?:, \w+)*)(?: \([^)]*\))?: (.+)$")
HEADS = {"Args:", "Attributes:"}
OTHER_HEADS = {"Raises:", "Returns:", "Yields:", "Example:", "Note:"}


def modules_of(name: str) -> list[str]:
    """A module; of a package also those in it that its docstring names in full (``mpsprobe_devkit.testing.fixtures``).

    The names that a package lists in ``__all__`` are its own; where it lists none, all modules in it are public.
    """
    module = importlib.import_module(name)
    said = module.__doc__ or ""
    inner = [one.name for one in pkgutil.walk_packages(getattr(module, "__path__", []), name + ".")]
    return [name, *(one for one in inner if f"``{one}``" in said)]


def names_of(module: ModuleType) -> dict[str, Name]:
    """The public names of a module: those in its ``__all__``, else those that it defines itself."""
    listed = getattr(module, "__all__", None)
    if listed is None:
        return {name: Name(module, name, node) for name, node in _definitions(module).items()}
    found = {}
    for public in (name for name in listed if not name.startswith("_")):
        origin = sys.modules[getattr(getattr(module, public), "__module__", None) or module.__name__]
        origin = origin if public in _definitions(origin) else _definer(module, public)
        found[public] = Name(origin, public, _definitions(origin)[public])
    return found


class Name(NamedTuple):
    """A public name: where it is defined, what it is called there, and the statement that defines it."""

    module: ModuleType
    name: str
    node: ast.stmt

    @property
    def value(self) -> Any:
        """What it stands for."""
        return getattr(self.module, self.name)


def _definer(package: ModuleType, name: str) -> ModuleType:
    """The module that a package imports ``name`` from, if only for type checkers."""
    for node in (one for one in ast.walk(_parsed(package)) if isinstance(one, ast.ImportFrom)):
        names = {one.asname or one.name for one in node.names}
        if name in names or ("*" in names and name in _definitions(importlib.import_module(str(node.module)))):
            return importlib.import_module(str(node.module))
    raise LookupError(f"{package.__name__} lists {name} and does not import it")


@functools.cache
def _parsed(module: ModuleType) -> ast.Module:
    return ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))


def _definitions(module: ModuleType) -> dict[str, ast.stmt]:
    return {
        name: node
        for node in _parsed(module).body
        for name in _defined(node)
        if not name.startswith("_") and not _is_for_types_only(node)
    }


def below(module: ModuleType) -> dict[str, str]:
    """What stands below the constants of a module, by their names."""
    return attribute_docstrings(_parsed(module).body)


def _is_for_types_only(node: ast.stmt) -> bool:
    """A ``TypeVar`` or ``ParamSpec``: a name for the annotations of its module."""
    value = getattr(node, "value", None)
    return isinstance(value, ast.Call) and ast.unparse(value.func).rsplit(".", 1)[-1] in {"TypeVar", "ParamSpec"}


def _defined(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
        yield node.name
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        yield node.target.id
    elif isinstance(node, ast.Assign):
        yield from (target.id for target in node.targets if isinstance(target, ast.Name))


def entries(docstring: str | None) -> dict[str, str]:
    """What a docstring says about each name under ``Args:`` and ``Attributes:``."""
    found: dict[str, str] = {}
    inside, names = False, []
    for line in inspect.cleandoc(docstring or "").splitlines():
        text = line.strip()
        if not line.startswith(" ") and text:
            inside, names = text in HEADS, []
        elif inside and (matched := ENTRY.match(text)) and len(line) - len(line.lstrip()) == 4:
            names = matched.group(1).split(", ")
            found.update(dict.fromkeys(names, matched.group(2)))
        elif inside and text:
            found.update({name: f"{found[name]} {text}" for name in names})
    return found


def prose(docstring: str | None) -> str:
    """A docstring without the parts that have a heading of their own."""
    kept, inside = [], True
    for line in inspect.cleandoc(docstring or "").splitlines():
        if line and not line.startswith(" "):
            inside = line not in HEADS | OTHER_HEADS
        if inside:
            kept.append(line)
    return "\n".join(kept).strip()


def members_of(node: ast.ClassDef) -> Iterator[tuple[str, bool]]:
    """The public methods and fields that a class defines, and whether each is a field."""
    for part in node.body:
        if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef)):
            names, is_field = [part.name], False
        else:
            names, is_field = list(_defined(part)), True
        yield from ((name, is_field) for name in names if not name.startswith("_"))


def attribute_docstrings(body: list[ast.stmt]) -> dict[str, str]:
    """The strings that stand below assignments, by the name that is assigned."""
    found = {}
    for node, after in itertools.pairwise(body):
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) and isinstance(after.value.value, str):
            found.update(dict.fromkeys(_defined(node), after.value.value))
    return found
