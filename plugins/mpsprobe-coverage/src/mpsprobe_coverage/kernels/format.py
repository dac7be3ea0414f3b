"""The data files: one for each release, holding what differs from the release before.

A file is text. Its first line is ``mpsprobe-kernel-table 1 SHA256``, the digest of all that follows. Then comes one
JSON document::

    {"base": "2.12.1", "release": "2.13.0", "library": "torch", "wheel": …, "sha256": …, …,
     "operators": {"MPS defined": {"aten": "abs.out add.out …"}, …, "": {"aten": "gone_ …"}}}

``operators`` groups, by what is known of them (labels joined by spaces, ``""`` for an operator that is gone), the
operators that changed since ``base``, names of a namespace joined by spaces. The first release has no base and names
all of its operators. The same table and base give the same bytes. Readers ignore keys that they do not know.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mpsprobe.errors import TableError
from mpsprobe_coverage.kernels.table import KernelTable

MAGIC = "mpsprobe-kernel-table 1"
REINSTALL = "Reinstall the package: pip install --force-reinstall --no-deps mpsprobe-coverage"


@dataclass(frozen=True, slots=True)
class TableFile:
    """One decoded data file.

    Attributes:
        header: everything but the operators.
        changes: operator → its labels joined by spaces, ``""`` when it is gone; for what changed since the base.
    """

    header: Mapping[str, Any]
    changes: Mapping[str, str]

    @property
    def release(self) -> str:
        return str(self.header["release"])

    @property
    def base(self) -> str | None:
        base = self.header["base"]
        return None if base is None else str(base)


def encode(table: KernelTable, base: KernelTable | None) -> bytes:
    """The data file of ``table`` when the release before it is ``base``."""
    before = {} if base is None else base.labels
    groups: dict[str, dict[str, list[str]]] = {}
    for operator in sorted({*table.labels, *before}):
        labels = table.labels.get(operator, frozenset())
        if labels != before.get(operator, frozenset()):
            namespace, _, name = operator.partition("::")
            groups.setdefault(" ".join(sorted(labels)), {}).setdefault(namespace, []).append(name)
    document = {
        "base": None if base is None else base.release,
        "release": table.release,
        "library": table.library,
        "wheel": table.wheel,
        "sha256": table.sha256,
        "commit": table.commit,
        "macos_minimum": table.macos_minimum,
        "requires_torch": table.requires_torch,
        "markers": sorted(table.markers),
        "only_in_binary": {key: list(names) for key, names in sorted(table.only_in_binary.items())},
        "only_declared": {key: list(names) for key, names in sorted(table.only_declared.items())},
        "operators": {
            labels: {namespace: " ".join(names) for namespace, names in sorted(groups[labels].items())}
            for labels in sorted(groups)
        },
    }
    body = (json.dumps(document, indent=1, ensure_ascii=True) + "\n").encode()
    return f"{MAGIC} {hashlib.sha256(body).hexdigest()}\n".encode() + body


def decode(data: bytes, name: str) -> TableFile:
    """A data file read back; ``name`` is said in errors.

    Raises:
        TableError: the file is truncated, changed, or of another format version.
    """
    first, _, body = data.partition(b"\n")
    if first != f"{MAGIC} {hashlib.sha256(body).hexdigest()}".encode():
        raise TableError(f"the kernel table {name} is damaged", REINSTALL)
    try:
        header = json.loads(body)
        groups = header.pop("operators")
        changes = {
            f"{namespace}::{operator}": labels
            for labels, namespaces in groups.items()
            for namespace, names in namespaces.items()
            for operator in names.split(" ")
        }
        return TableFile(header, changes)
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise TableError(f"the kernel table {name} is damaged: {error}", REINSTALL) from error


def apply(changes: Mapping[str, str], labels: dict[str, str]) -> None:
    """Bring ``labels`` (operator → labels joined by spaces) from the base to the release of ``changes``."""
    for operator, new in changes.items():
        if new:
            labels[operator] = new
        else:
            labels.pop(operator, None)


def to_table(header: Mapping[str, Any], labels: Mapping[str, str]) -> KernelTable:
    """The table of a release from its header and all of its operators.

    Raises:
        TableError: the header lacks something.
    """
    split = {joined: frozenset(joined.split(" ")) for joined in set(labels.values())}
    try:
        return KernelTable(
            release=header["release"],
            library=header["library"],
            wheel=header["wheel"],
            sha256=header["sha256"],
            commit=header["commit"],
            macos_minimum=header["macos_minimum"],
            requires_torch=header["requires_torch"],
            labels={operator: split[joined] for operator, joined in labels.items()},
            markers=frozenset(header["markers"]),
            only_in_binary={key: tuple(names) for key, names in header["only_in_binary"].items()},
            only_declared={key: tuple(names) for key, names in header["only_declared"].items()},
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise TableError(f"the kernel table of {header.get('release')} is damaged: {error}", REINSTALL) from error
