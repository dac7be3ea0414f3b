"""One wheel → one kernel table: what its library registers, and what its Python files and native_functions.yaml say.

Of the Python files syntax trees are looked through, and nothing is imported. native_functions.yaml is the second source
for what the binary shows. Its reader knows the form that this one file has had since 1.12: a list of flat mappings,
``dispatch`` one level deeper. Anything that does not have this form is an error, not a guess.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field

from mpsprobe.errors import TableError
from mpsprobe_coverage.knowledge.kernels.mps import MPS_FAMILY
from mpsprobe_coverage.knowledge.kernels.table import DEFINED, MPS, MPS_ERROR, MPS_FALLBACK, MPS_PYTHON, KernelTable
from mpsprobe_tables.builder.registrations import COMPOSITE_KEYS, Registrations, read_registrations
from mpsprobe_tables.builder.wheel import Wheel

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
    operators = set()
    for library, texts in calls:
        if texts[1:2] == [MPS_KEY] or (len(texts) == 1 and library in libraries_of_mps):
            name = texts[0]
            operators.add(name if "::" in name else f"{namespaces.get(library, 'aten')}::{name}")
    return operators


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


FUNCTION = re.compile(r"- func: (\w+(?:\.\w+)?)\(")
PROPERTY = re.compile(r"  (\w+):(?: (.*))?$")
DISPATCH = re.compile(r"    ([\w, ]+): ?(\S.*)$")


@dataclass(slots=True)
class DeclaredOperator:
    """One entry: its dispatch keys, and the operator that ``structured_delegate`` says it takes its kernels from."""

    name: str
    keys: set[str] = field(default_factory=set)
    delegate: str | None = None
    has_dispatch: bool = False  # an empty one ("dispatch: {}") says: no kernel at all


def parse_native_functions(text: str) -> dict[str, DeclaredOperator]:
    """Operators by name (``add.Tensor``) in the order of the file.

    Raises TableError: the text is not a native_functions.yaml.
    """
    operators: dict[str, DeclaredOperator] = {}
    current: DeclaredOperator | None = None
    in_dispatch = False
    for number, raw in enumerate(text.splitlines(), 1):
        line = re.sub(r"(^|\s)#.*$", "", raw).rstrip()
        if not line:
            continue
        if match := FUNCTION.match(line):
            current = operators[match[1]] = DeclaredOperator(match[1])
            in_dispatch = False
        elif current is None:
            raise TableError(f"native_functions.yaml, line {number}: not an entry")
        elif match := DISPATCH.match(line):
            if in_dispatch:
                current.keys.update(key.strip() for key in match[1].split(","))
        elif match := PROPERTY.match(line):
            in_dispatch = match[1] == "dispatch"
            current.has_dispatch |= in_dispatch
            if match[1] == "structured_delegate":
                current.delegate = (match[2] or "").strip()
    if not operators:
        raise TableError("native_functions.yaml declares no operator")
    return operators


def declared_kernels(operators: dict[str, DeclaredOperator]) -> dict[str, set[str]]:
    """Dispatch key → operators (``aten::…``), for the keys of MPS and the composite ones.

    Structured delegates have the kernels of their delegate; without ``dispatch`` it is CompositeImplicitAutograd.
    What torchgen adds by itself (``autogen``, kernels of structured operators for no backend) is not in the file.
    """
    kernels: dict[str, set[str]] = {}
    for operator in operators.values():
        delegate = operators.get(operator.delegate) if operator.delegate else None
        keys = {key for key in operator.keys if key.endswith("MPS") or key.startswith("Composite")}
        if delegate is not None and "MPS" in delegate.keys:  # torchgen generates no structured kernel for sparse keys
            keys.add("MPS")
        if not operator.has_dispatch and operator.delegate is None:
            keys.add("CompositeImplicitAutograd")
        for key in keys:
            kernels.setdefault(key, set()).add(f"aten::{operator.name}")
    return kernels


NATIVE_FUNCTIONS = "torchgen/packaged/ATen/native/native_functions.yaml"
QUOTED_MPS = (b'"MPS"', b"'MPS'")
FOREACH = "torch/utils/_foreach_utils.py"
MOST_MISSING, SHARE_MISSING = 10, 0.05  # no release so far lacks one
COMPARED_KEYS = ("MPS", "SparseCsrMPS", "SparseMPS", *COMPOSITE_KEYS)


def read_table(wheel: Wheel) -> KernelTable:
    """The kernel table of a wheel.

    Raises TableError: the wheel is foreign, truncated or corrupted, or registers nothing for MPS.
    """
    registrations = read_registrations(wheel.binary)
    name = wheel.path.name
    if wheel.library == "torch" and not registrations.kernels.get(MPS):  # torchvision has had MPS kernels since 0.16
        raise TableError(f"the library in '{name}' registers nothing for MPS")
    version = parse(wheel.text(f"{wheel.library}/version.py"), "version.py")
    python: set[str] = set()
    only_in_binary: dict[str, tuple[str, ...]] = {}
    only_declared: dict[str, tuple[str, ...]] = {}
    markers = set(registrations.markers)
    if wheel.library == "torch":
        for member, source in wheel.python_files(QUOTED_MPS):
            python |= registered_from_python(parse(source, member))
        if wheel.has(FOREACH):  # since 2.1; before it only CUDA had these kernels
            markers |= optimizer_markers(parse(wheel.text(FOREACH), FOREACH))
        declared = declared_kernels(parse_native_functions(wheel.text(NATIVE_FUNCTIONS)))
        only_in_binary, only_declared = _disagreements(registrations, declared)
        _check_complete(name, only_declared.get(MPS, ()), declared.get(MPS, set()))
    return KernelTable(
        MPS_FAMILY,
        release=wheel.release,
        library=wheel.library,
        wheel=name,
        sha256=wheel.sha256,
        commit=commit(version),
        macos_minimum=registrations.macos_minimum,
        requires_torch=wheel.requires_torch,
        labels=_labels(registrations, python),
        markers=frozenset(markers),
        only_in_binary=only_in_binary,
        only_declared=only_declared,
    )


def _check_complete(name: str, missing: Collection[str], declared: Collection[str]) -> None:
    """Refuse a table that would be half: a release may register its kernels in a way that this reader does not know."""
    if len(missing) > max(MOST_MISSING, len(declared) * SHARE_MISSING):
        raise TableError(
            f"the library in '{name}' registers only {len(declared) - len(missing)} of {len(declared)} operators that "
            "native_functions.yaml declares for MPS",
            "Either the wheel is damaged, or this release needs a newer mpsprobe-tables.",
        )


def _labels(registered: Registrations, python: set[str]) -> dict[str, frozenset[str]]:
    labels: defaultdict[str, set[str]] = defaultdict(set)
    groups = {**registered.kernels, DEFINED: registered.defined}
    groups |= {MPS_FALLBACK: registered.fallback, MPS_ERROR: registered.error, MPS_PYTHON: python}
    for label, operators in groups.items():
        for operator in operators:
            labels[operator].add(label)
    return {operator: frozenset(labels[operator]) for operator in sorted(labels)}


def _disagreements(
    registered: Registrations, declared: dict[str, set[str]]
) -> tuple[dict[str, tuple[str, ...]], dict[str, tuple[str, ...]]]:
    """Operators of aten, by key, that only one of the two sources has.

    Fallbacks and error stubs are never declared, so they are no disagreement.
    """
    in_binary, in_file = {}, {}
    for key in COMPARED_KEYS:
        binary = {operator for operator in registered.kernels.get(key, set()) if operator.startswith("aten::")}
        if key == MPS:
            binary -= registered.fallback | registered.error
        file = declared.get(key, set())
        if key.endswith("MPS") and binary - file:  # torchgen adds composite kernels that the file does not tell
            in_binary[key] = tuple(sorted(binary - file))
        if file - binary:
            in_file[key] = tuple(sorted(file - binary))
    return in_binary, in_file
