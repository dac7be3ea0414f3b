"""What the library of a release shows about the kernels of single operators: Metal kernels by dtype, unset stubs.

Beside each kernel table of torch lies a file ``torch-VERSION.kernels``. Its first line is
``mpsprobe-kernel-facts 1 SHA256``, the digest of all that follows; then one JSON document::

    {"base": "2.12.1", "release": "2.13.0", "sha256": …,
     "kernels": {"bool char … float": "exp log …"},
     "operators": {"unary:exp": {"aten": "exp exp_ exp.out"}, "stub:put_stub": {"aten": "put_"}, "": {"aten": "gone"}}}

Both groups name what changed since ``base``, by what is known of it: of a kernel the Metal types of its input, of an
operator how its kernel computes. ``""`` is for what is no longer known. Readers ignore what they do not know.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from packaging.version import Version

from mpsprobe.errors import TableError
from mpsprobe_coverage.kernels.format import REINSTALL
from mpsprobe_coverage.kernels.releases import data_folder

MAGIC = "mpsprobe-kernel-facts 1"
SUFFIX = ".kernels"
CONVERTING = "cast:"
METAL_TYPES: Mapping[str, str] = {
    "float": "float32",
    "half": "float16",
    "bfloat": "bfloat16",
    "long": "int64",
    "int": "int32",
    "short": "int16",
    "char": "int8",
    "uchar": "uint8",
    "bool": "bool",
    "float2": "complex64",
    "half2": "complex32",
    "ulong": "uint64",
    "uint": "uint32",
    "ushort": "uint16",
}
"""Type in the name of a Metal kernel → dtype (``scalarToMetalTypeString`` in PyTorch's OperationUtils.mm)."""
STUB, NAMED = "stub", "named"


@dataclass(frozen=True, slots=True)
class KernelFacts:
    """What is known of one release.

    Attributes:
        release: of torch.
        sha256: of the wheel, in hexadecimal.
        kernels: Metal operation (``exp``) → the Metal types of its input; ``cast:`` before those that convert.
        operators: operator → how it computes, when it computes in no other way: ``unary:exp``, ``binary:fmax`` (one of
            them, where there are several), or ``stub:put_stub`` when it needs a stub that has no kernel for MPS.
    """

    release: str
    sha256: str
    kernels: Mapping[str, frozenset[str]] = field(repr=False)
    operators: Mapping[str, frozenset[str]] = field(repr=False)

    def unset_stubs(self, operator: str) -> frozenset[str]:
        """The stubs that ``operator`` calls, when it can compute through nothing else and none has a kernel for MPS."""
        marked = (fact.partition(":") for fact in self.operators.get(operator, ()))
        return frozenset(name for kind, _, name in marked if kind == STUB)

    def operations(self, operator: str) -> Mapping[str, frozenset[str]]:
        """Kind of kernel (``unary``) → the Metal operations that ``operator`` can use; empty when that is not known."""
        found: dict[str, set[str]] = {}
        for fact in self.operators.get(operator, ()):
            kind, _, name = fact.partition(":")
            if kind != STUB:
                found.setdefault(kind, set()).add(name)
        return {kind: frozenset(names) for kind, names in found.items()}


@dataclass(frozen=True, slots=True)
class FactsFile:
    """One decoded file: its header, and what changed since its base, ``""`` for what is gone."""

    release: str
    base: str | None
    sha256: str
    kernels: Mapping[str, str]
    operators: Mapping[str, str]


def encode_facts(facts: KernelFacts, base: KernelFacts | None) -> bytes:
    """The data file of ``facts`` when the release before it is ``base``; the same input gives the same bytes."""
    kernels = _changed(facts.kernels, {} if base is None else base.kernels)
    operators = _changed(facts.operators, {} if base is None else base.operators)
    document = {
        "base": None if base is None else base.release,
        "release": facts.release,
        "sha256": facts.sha256,
        "kernels": {types: " ".join(names) for types, names in kernels.items()},
        "operators": {known: _by_namespace(names) for known, names in operators.items()},
    }
    body = (json.dumps(document, indent=1, ensure_ascii=True) + "\n").encode()
    return f"{MAGIC} {hashlib.sha256(body).hexdigest()}\n".encode() + body


def decode_facts(data: bytes, name: str) -> FactsFile:
    """A data file read back; ``name`` is said in errors.

    Raises:
        TableError: the file is truncated, changed, or of another format version.
    """
    first, _, body = data.partition(b"\n")
    if first != f"{MAGIC} {hashlib.sha256(body).hexdigest()}".encode():
        raise TableError(f"the kernel facts {name} are damaged", REINSTALL)
    try:
        document = json.loads(body)
        base = document["base"]
        return FactsFile(
            release=str(document["release"]),
            base=None if base is None else str(base),
            sha256=str(document["sha256"]),
            kernels={kernel: types for types, names in document["kernels"].items() for kernel in names.split(" ")},
            operators={
                f"{namespace}::{operator}": known
                for known, namespaces in document["operators"].items()
                for namespace, names in namespaces.items()
                for operator in names.split(" ")
            },
        )
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise TableError(f"the kernel facts {name} are damaged: {error}", REINSTALL) from error


@functools.cache
def facts_releases() -> tuple[str, ...]:
    """The torch releases whose facts come with the package, oldest first."""
    names = (entry.name for entry in data_folder().iterdir())
    found = [name.removeprefix("torch-").removesuffix(SUFFIX) for name in names if name.endswith(SUFFIX)]
    return tuple(sorted(found, key=Version))


@functools.cache
def load_facts(release: str) -> KernelFacts | None:
    """The facts of one torch release, or None when the package has none of it.

    Raises:
        TableError: a data file is damaged or missing.
    """
    if release not in facts_releases():
        return None
    kernels: dict[str, str] = {}
    operators: dict[str, str] = {}
    base = None
    for current in facts_releases():
        file = _file(current)
        if file.base != base or file.release != current:
            raise TableError(f"the kernel facts of torch {current} do not fit", REINSTALL)
        base = current
        for changes, known in ((file.kernels, kernels), (file.operators, operators)):
            for name, new in changes.items():
                if new:
                    known[name] = new
                else:
                    known.pop(name, None)
        if current == release:
            break
    return KernelFacts(release, file.sha256, _split(kernels), _split(operators))


@functools.cache
def _file(release: str) -> FactsFile:
    name = f"torch-{release}{SUFFIX}"
    try:
        data = (data_folder() / name).read_bytes()
    except OSError as error:
        raise TableError(f"the kernel facts {name} cannot be read: {error}", REINSTALL) from error
    return decode_facts(data, name)


def _changed(now: Mapping[str, frozenset[str]], before: Mapping[str, frozenset[str]]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for name in sorted({*now, *before}):
        known = now.get(name, frozenset())
        if known != before.get(name, frozenset()):
            groups.setdefault(" ".join(sorted(known)), []).append(name)
    return dict(sorted(groups.items()))


def _by_namespace(operators: list[str]) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    for operator in operators:
        namespace, _, name = operator.partition("::")
        found.setdefault(namespace, []).append(name)
    return {namespace: " ".join(names) for namespace, names in found.items()}


def _split(joined: Mapping[str, str]) -> dict[str, frozenset[str]]:
    sets = {text: frozenset(text.split(" ")) for text in set(joined.values())}
    return {name: sets[text] for name, text in joined.items()}
