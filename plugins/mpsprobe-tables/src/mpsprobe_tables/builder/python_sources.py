"""What the wheel's Python files say, found in their syntax trees: nothing is imported."""

from __future__ import annotations

import ast

from mpsprobe.errors import TableError

MPS_KEY = "MPS"
OPTIMIZER_MARKERS = {
    "foreach_mps": "_get_foreach_kernels_supported_devices",
    "fused_mps": "_get_fused_kernels_supported_devices",
}
"""Marker → function of torch/utils/_foreach_utils.py that lists "mps" when the marker is set."""


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
    """Operators that a module gives a Python kernel for MPS, as ``namespace::name``.

    Two forms occur: ``lib = Library("aten", "IMPL"); lib.impl("name", function, "MPS")`` (torch/backends/mps, 2.0 to
    2.12) and ``lib = Library("aten", "IMPL", "MPS"); lib.impl("aten::name", function)`` (torch/_refs/linalg, 2.10 to
    2.13).
    """
    namespaces: dict[str, str] = {}
    libraries_of_mps: set[str] = set()
    calls: list[tuple[str, list[str]]] = []
    for node in ast.walk(module):
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Call):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [target.id for target in targets if isinstance(target, ast.Name)]
            texts = _texts(node.value)
            if texts[1:2] == ["IMPL"]:
                namespaces.update(dict.fromkeys(names, texts[0]))
                libraries_of_mps.update(names if texts[2:3] == [MPS_KEY] else ())
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "impl":
            library = node.func.value.id if isinstance(node.func.value, ast.Name) else ""
            calls.append((library, _texts(node)))
    found = set()
    for library, texts in calls:
        if texts[1:2] == [MPS_KEY] or (len(texts) == 1 and library in libraries_of_mps):
            name = texts[0]
            found.add(name if "::" in name else f"{namespaces.get(library, 'aten')}::{name}")
    return found


def _texts(call: ast.Call) -> list[str]:
    """The string arguments of ``call``, those by keyword last."""
    arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
    return [a.value for a in arguments if isinstance(a, ast.Constant) and isinstance(a.value, str)]


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
