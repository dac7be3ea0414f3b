"""Reads the Python files of a plugin without running them: what they import, and which functions are hooks."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mpsprobe_devkit.checking.subject import Subject

LARGEST = 2_000_000  # bytes of a source file; larger ones are data
MOST_FILES = 5_000
GUARDS = {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"}


@dataclass(frozen=True, slots=True)
class Imported:
    """One import statement's module.

    Attributes:
        module: absolute, ``package.module``; of ``from a import b`` it is ``a``, and ``names`` has ``b``.
        guarded: the program goes on without it: in ``try`` with ``except ImportError``, or for type checkers only.
        at_import: it runs when the file is imported, not when a function is called.
    """

    module: str
    names: tuple[str, ...]
    path: Path
    line: int
    guarded: bool
    at_import: bool


def python_files(subject: Subject) -> list[Path]:
    """The source files of the plugin's own packages, sorted; links to folders are not followed."""
    found: list[Path] = []
    roots = [*subject.paths, subject.root]
    for package in subject.packages:
        for root in roots:
            if (root / package).is_dir():
                found += _below(root / package)
            elif (root / f"{package}.py").is_file():
                found.append(root / f"{package}.py")
            else:
                continue
            break
    return found[:MOST_FILES]


def _below(folder: Path) -> list[Path]:
    return sorted(
        Path(where, name)
        for where, _folders, names in os.walk(folder)
        for name in names
        if name.endswith(".py") and "__pycache__" not in where
    )


def parsed(path: Path) -> ast.Module | None:
    """The syntax tree of ``path``; ``None`` where there is none: importing it says why."""
    try:
        if path.stat().st_size > LARGEST:
            return None
        return ast.parse(path.read_bytes(), str(path))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def module_file(subject: Subject, module: str) -> Path | None:
    """The file of ``module`` if it lies in the subject."""
    inside = Path(*module.split("."))
    for root in (*subject.paths, subject.root):
        for path in (root / inside.with_suffix(".py"), root / inside / "__init__.py"):
            if path.is_file():
                return path
    return None


def imports(path: Path, tree: ast.Module, package: str) -> list[Imported]:
    """Every import in ``tree``; ``package`` is that of the file, for relative ones."""
    return list(_imports(tree, path, package.split(".") if package else [], guarded=False, at_import=True))


def _imports(node: ast.AST, path: Path, package: list[str], *, guarded: bool, at_import: bool) -> Iterator[Imported]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield Imported(alias.name, (), path, node.lineno, guarded, at_import)
        return
    if isinstance(node, ast.ImportFrom):
        base = package[: len(package) - node.level + 1] if node.level else []
        module = ".".join([*base, *([node.module] if node.module else [])])
        yield Imported(module, tuple(alias.name for alias in node.names), path, node.lineno, guarded, at_import)
        return
    if isinstance(node, ast.Try):
        guarded = guarded or any(_catches_import_errors(handler) for handler in node.handlers)
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        for child in node.body:
            yield from _imports(child, path, package, guarded=True, at_import=False)
        for child in node.orelse:
            yield from _imports(child, path, package, guarded=guarded, at_import=at_import)
        return
    inner = at_import and not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
    for inside in ast.iter_child_nodes(node):
        yield from _imports(inside, path, package, guarded=guarded, at_import=inner)


def _catches_import_errors(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(ast.unparse(one).rsplit(".", 1)[-1] in GUARDS for one in types)


def package_of(subject: Subject, path: Path) -> str:
    """The package that the file ``path`` belongs to, for its relative imports."""
    for root in (*subject.paths, subject.root):
        try:
            inside = path.relative_to(root)
        except ValueError:
            continue
        return ".".join(inside.parts[:-1])
    return ""
