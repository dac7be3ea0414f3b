"""One wheel → one kernel table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

from mpsprobe.errors import TableError
from mpsprobe_coverage.knowledge.kernels.mps import MPS_FAMILY
from mpsprobe_coverage.knowledge.kernels.table import DEFINED, MPS, MPS_ERROR, MPS_FALLBACK, MPS_PYTHON, KernelTable
from mpsprobe_tables.builder import python_sources
from mpsprobe_tables.builder.declared import declared_kernels, parse_native_functions
from mpsprobe_tables.builder.registrations import COMPOSITE_KEYS, Registrations, read_registrations
from mpsprobe_tables.builder.wheel import Wheel

NATIVE_FUNCTIONS = "torchgen/packaged/ATen/native/native_functions.yaml"
QUOTED_MPS = (b'"MPS"', b"'MPS'")
FOREACH = "torch/utils/_foreach_utils.py"
MOST_MISSING, SHARE_MISSING = 10, 0.05  # no release so far lacks one
COMPARED_KEYS = ("MPS", "SparseCsrMPS", "SparseMPS", *COMPOSITE_KEYS)


def read_table(wheel: Wheel) -> KernelTable:
    """The kernel table of a wheel.

    Raises:
        TableError: the wheel is foreign, truncated or corrupted, or registers nothing for MPS.
    """
    found = read_registrations(wheel.binary)
    name = wheel.path.name
    if wheel.library == "torch" and not found.kernels.get(MPS):  # torchvision has had MPS kernels since 0.16
        raise TableError(f"the library in '{name}' registers nothing for MPS")
    version = python_sources.parse(wheel.text(f"{wheel.library}/version.py"), "version.py")
    python: set[str] = set()
    only_in_binary: dict[str, tuple[str, ...]] = {}
    only_declared: dict[str, tuple[str, ...]] = {}
    markers = set(found.markers)
    if wheel.library == "torch":
        for member, source in wheel.python_files(QUOTED_MPS):
            python |= python_sources.registered_from_python(python_sources.parse(source, member))
        if wheel.has(FOREACH):  # since 2.1; before it only CUDA had these kernels
            markers |= python_sources.optimizer_markers(python_sources.parse(wheel.text(FOREACH), FOREACH))
        declared = declared_kernels(parse_native_functions(wheel.text(NATIVE_FUNCTIONS)))
        only_in_binary, only_declared = _disagreements(found, declared)
        _check_complete(name, only_declared.get(MPS, ()), declared.get(MPS, set()))
    return KernelTable(
        MPS_FAMILY,
        release=wheel.release,
        library=wheel.library,
        wheel=name,
        sha256=wheel.sha256,
        commit=python_sources.commit(version),
        macos_minimum=found.macos_minimum,
        requires_torch=wheel.requires_torch,
        labels=_labels(found, python),
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


def _labels(found: Registrations, python: set[str]) -> dict[str, frozenset[str]]:
    labels: defaultdict[str, set[str]] = defaultdict(set)
    groups = {**found.kernels, DEFINED: found.defined}
    groups |= {MPS_FALLBACK: found.fallback, MPS_ERROR: found.error, MPS_PYTHON: python}
    for label, operators in groups.items():
        for operator in operators:
            labels[operator].add(label)
    return {operator: frozenset(labels[operator]) for operator in sorted(labels)}


def _disagreements(
    found: Registrations, declared: dict[str, set[str]]
) -> tuple[dict[str, tuple[str, ...]], dict[str, tuple[str, ...]]]:
    """Operators of aten, by key, that only one of the two sources has.

    Fallbacks and error stubs are never declared, so they are no disagreement.
    """
    in_binary, in_file = {}, {}
    for key in COMPARED_KEYS:
        binary = {operator for operator in found.kernels.get(key, set()) if operator.startswith("aten::")}
        if key == MPS:
            binary -= found.fallback | found.error
        file = declared.get(key, set())
        if key.endswith("MPS") and binary - file:  # torchgen adds composite kernels that the file does not tell
            in_binary[key] = tuple(sorted(binary - file))
        if file - binary:
            in_file[key] = tuple(sorted(file - binary))
    return in_binary, in_file
