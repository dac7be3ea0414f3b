"""What the wheel's Python files say, found in their syntax trees: nothing is imported."""

from __future__ import annotations

import ast

from mpsprobe.errors import TableError
from mpsprobe_coverage.kernels.build.markers import OPTIMIZER_MARKERS


def parse(source: str, name: str) -> ast.Module:
    """The syntax tree of ``source``. Raises ``TableError`` when it is not Python."""
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise TableError(f"{name} is not a Python file: {error}", "Download the wheel again.") from error


def commit(version_file: ast.Module) -> str | None:
    """``git_version`` of a version.py."""
    for node in version_file.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            names = {target.id for target in node.targets if isinstance(target, ast.Name)}
            if "git_version" in names:
                return str(node.value.value)
    return None


def registered_from_python(module: ast.Module) -> set[str]:
    """Operators that ``library.impl("name", function, "MPS")`` gives a Python kernel, as ``aten::name``."""
    found = set()
    for node in ast.walk(module):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "impl"):
            continue
        arguments = [*node.args[:3], *(k.value for k in node.keywords if k.arg == "dispatch_key")]
        texts = [a.value for a in arguments if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        if len(texts) == 2 and texts[1] == "MPS":
            found.add(texts[0] if "::" in texts[0] else f"aten::{texts[0]}")
    return found


def optimizer_markers(module: ast.Module) -> set[str]:
    """Which of ``OPTIMIZER_MARKERS`` a torch/utils/_foreach_utils.py shows: the function's list has "mps" in it."""
    return {
        marker
        for marker, function in OPTIMIZER_MARKERS.items()
        for node in module.body
        if isinstance(node, ast.FunctionDef) and node.name == function
        for part in ast.walk(node)
        if isinstance(part, ast.Constant) and part.value == "mps"
    }
