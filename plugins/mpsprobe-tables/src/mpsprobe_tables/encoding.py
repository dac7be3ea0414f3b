"""Writes the data files that mpsprobe-coverage reads. The same input gives the same bytes.

What stands in them is said there: ``format.py``, ``kernel_facts.py`` and ``compositions.py`` in ``kernels/``,
``judging/lists.py``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mpsprobe.errors import TableError
from mpsprobe_coverage.knowledge.judging import lists
from mpsprobe_coverage.knowledge.kernels import compositions, kernel_facts
from mpsprobe_coverage.knowledge.kernels import format as tables
from mpsprobe_coverage.knowledge.kernels.compositions import Compositions
from mpsprobe_coverage.knowledge.kernels.kernel_facts import KernelFacts
from mpsprobe_coverage.knowledge.kernels.table import KernelTable


@dataclass(frozen=True, slots=True)
class DataFile:
    """A data file that was made."""

    folder: Path  # where a checkout keeps such files
    name: str
    data: bytes
    shipped: bool  # whether there is a file of that name
    same: bool  # whether that one has the same bytes

    @classmethod
    def of(cls, folder: Path, name: str, data: bytes) -> DataFile:
        """The file ``name`` with ``data``, compared with the one that is shipped."""
        path = folder / name
        return cls(folder, name, data, path.is_file(), path.is_file() and path.read_bytes() == data)


def seal(magic: str, document: Any) -> bytes:
    """The data file that holds ``document``; ``unseal`` the other way round."""
    body = (json.dumps(document, indent=1, ensure_ascii=True) + "\n").encode()
    return f"{magic} {hashlib.sha256(body).hexdigest()}\n".encode() + body


def changed(now: Mapping[str, str], before: Mapping[str, str]) -> dict[str, str]:
    """What is known now and was not before → the names of which it is, joined by spaces; ``""``: nothing is known.

    Raises TableError: a name has a space, or nothing in it.
    """
    groups: dict[str, list[str]] = {}
    if wrong := [name for name in now if not name or " " in name or not name.isprintable()]:
        raise TableError(f"something is called {wrong[0]!a}", "Download the wheel again.")
    for name in sorted({*now, *before}):
        if now.get(name) != before.get(name):
            groups.setdefault(now.get(name, ""), []).append(name)
    return {known: " ".join(names) for known, names in sorted(groups.items())}


def encode_table(table: KernelTable, base: KernelTable | None) -> bytes:
    """The data file of ``table`` when the release before it is ``base``."""
    document = {
        "base": None if base is None else base.release,
        "release": table.release,
        **{name: getattr(table, name) for name in tables.PROVENANCE},
        "markers": sorted(table.markers),
        "only_in_binary": {key: list(names) for key, names in sorted(table.only_in_binary.items())},
        "only_declared": {key: list(names) for key, names in sorted(table.only_declared.items())},
        "operators": _operators_changed(_joined(table.labels), {} if base is None else _joined(base.labels)),
    }
    return seal(tables.TABLES.magic, document)


def encode_facts(facts: KernelFacts, base: KernelFacts | None) -> bytes:
    """The data file of ``facts`` when the release before it is ``base``."""
    document = {
        "base": None if base is None else base.release,
        "release": facts.release,
        "sha256": facts.sha256,
        "kernels": changed(_joined(facts.kernels), {} if base is None else _joined(base.kernels)),
        "operators": _folded(_joined(facts.operators), {} if base is None else _joined(base.operators)),
        "refusals": _folded(_refusals(facts), {} if base is None else _refusals(base)),
        "graphs": _folded(_joined(facts.graphs), {} if base is None else _joined(base.graphs)),
        "code": _folded(facts.code, {} if base is None else base.code),
    }
    return seal(kernel_facts.FACTS.magic, document)


def encode_compositions(composed: Compositions, base: Compositions | None) -> bytes:
    """The data file of ``composed`` when the release before it is ``base``."""
    known = [_joined(part.calls) if part is not None else {} for part in (composed, base)]
    now, before = ({name: calls or compositions.NOTHING for name, calls in part.items()} for part in known)
    document = {
        "base": None if base is None else base.release,
        "release": composed.release,
        "sha256": composed.sha256,
        "calls": changed(now, before),
    }
    return seal(compositions.COMPOSITIONS.magic, document)


def encode_lists(known: Iterable[lists.Learned], provenance: Mapping[str, Any]) -> bytes:
    """The data file of what was learned; each list holds what changed since the one before."""
    before: dict[str, dict[str, str]] = {part: {} for part in lists.PARTS}
    documents = []
    for learned in known:
        now = {
            lists.REFUSED: _entries(learned.refused),
            lists.UNCLAIMED: _entries(learned.unclaimed),
            lists.ACCEPTED: {name: "|".join(sorted(taken)) for name, taken in learned.accepted.items() if taken},
        }
        changes = {part: changed(now[part], before[part]) for part in lists.PARTS}
        documents.append({"releases": list(learned.releases), **changes})
        before = now
    return seal(lists.MAGIC, {"provenance": provenance, "lists": documents})


def _refusals(facts: KernelFacts) -> dict[str, str]:
    return {name: kernel_facts.PARTED.join(sorted(map(str, known))) for name, known in facts.refusals.items()}


def _folded(now: Mapping[str, str], before: Mapping[str, str]) -> dict[str, str]:
    """As ``changed``, the names of operators as ``kernel_facts`` shortens them."""
    folded = {}
    for known, names in changed(now, before).items():
        left = dict.fromkeys(names.split(" "), "")
        for mark, variants in kernel_facts.FOLDED.items():
            for name in [
                name
                for name, sign in left.items()
                if not sign and all(f"{name}{variant}" in left for variant in variants)
            ]:
                left = {
                    other: sign for other, sign in left.items() if other not in {f"{name}{v}" for v in variants[1:]}
                }
                left[name] = mark
        folded[known] = " ".join(f"{name.removeprefix(kernel_facts.ATEN)}{mark}" for name, mark in left.items())
    return folded


def _operators_changed(now: Mapping[str, str], before: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """As ``changed``, the names of operators by namespace."""
    groups: dict[str, dict[str, list[str]]] = {}
    for known, operators in changed(now, before).items():
        for operator in operators.split(" "):
            namespace, _, name = operator.partition("::")
            groups.setdefault(known, {}).setdefault(namespace, []).append(name)
    return {
        known: {namespace: " ".join(names) for namespace, names in sorted(by_namespace.items())}
        for known, by_namespace in groups.items()
    }


def _joined(known: Mapping[str, frozenset[str]]) -> dict[str, str]:
    return {name: " ".join(sorted(facts)) for name, facts in known.items()}


def _entries(part: lists.Signatures) -> dict[str, str]:
    return {
        operator: "|".join(f"{signature}@{entry}" for signature, entry in sorted(entries.items()))
        for operator, entries in part.items()
        if entries
    }
