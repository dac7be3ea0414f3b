"""The data files: one for each release, holding what differs from the release before.

A file is text. Its first line is the kind of file, the version of its format and the SHA256 of all that follows
(``mpsprobe-kernel-table 1 SHA256``). Then comes one JSON document; that of a kernel table is::

    {"base": "2.12.1", "release": "2.13.0", "library": "torch", "wheel": …, "sha256": …, …,
     "operators": {"MPS defined": {"aten": "abs.out add.out …"}, …, "": {"aten": "gone_ …"}}}

``operators`` groups, by what is known of them (labels joined by spaces, ``""`` for an operator that is gone), the
operators that changed since ``base``, names of a namespace joined by spaces. The first release has no base and names
all of its operators. Readers ignore keys that they do not know. mpsprobe-tables writes them.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from mpsprobe.errors import TableError
from mpsprobe_coverage.knowledge.kernels import releases
from mpsprobe_coverage.knowledge.kernels.table import KernelFamily, KernelTable

T = TypeVar("T")
PROVENANCE = ("library", "wheel", "sha256", "commit", "macos_minimum", "requires_torch")
REINSTALL = "Reinstall the package: pip install --force-reinstall --no-deps mpsprobe-coverage"


class OnDemand(Mapping[str, T]):
    """Texts that are taken apart when they are asked for: of the thousands of a release few are."""

    def __init__(self, texts: Mapping[str, str], parse: Callable[[str], T]) -> None:
        self.texts, self._parse = texts, parse

    def __getitem__(self, name: str) -> T:
        return self._parse(self.texts[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self.texts)

    def __len__(self) -> int:
        return len(self.texts)


@dataclass(frozen=True, slots=True)
class DataFile:
    release: str
    base: str | None  # the release before
    header: Mapping[str, Any]  # everything but the parts
    changes: Mapping[str, Mapping[str, str]]  # part → name → what is known since the base, joined; "" when it is gone


@dataclass(frozen=True, eq=False)
class Kind:
    """One kind of data files: its first words, how their names end, and how each part of a document is grouped."""

    magic: str
    suffix: str
    parts: Mapping[str, Callable[[Any], dict[str, str]]]

    def decode(self, data: bytes, name: str) -> DataFile:

        def read(document: Any) -> DataFile:
            changes = {part: ungroup(document.pop(part)) for part, ungroup in self.parts.items()}
            return DataFile(document["release"], document["base"], document, changes)

        return unseal(self.magic, data, name, read)

    def files(self, library: str = "torch") -> Iterator[DataFile]:
        """Those that are shipped, oldest first, each based on the one before.

        Raises:
            TableError: as ``data_file``; or one between them is missing.
        """
        base = None
        for release in releases.library_releases(library, self.suffix):
            name = f"{library}-{release}{self.suffix}"
            file = data_file(name, self.decode)
            if (file.release, file.base) != (release, base):
                raise TableError(f"the data file {name} does not fit", REINSTALL)
            base = release
            yield file

    def known(self, release: str, library: str = "torch") -> tuple[Mapping[str, Any], dict[str, dict[str, str]]] | None:
        """The header of a release, and all that is known of it, by part; None where no file of it is shipped."""
        parts: dict[str, dict[str, str]] = {part: {} for part in self.parts}
        for file in self.files(library) if release in releases.library_releases(library, self.suffix) else ():
            for part, changes in file.changes.items():
                apply(changes, parts[part])
            if file.release == release:
                return file.header, parts
        return None


def unseal(magic: str, data: bytes, name: str, read: Callable[[Any], T], hint: str = REINSTALL) -> T:
    """What ``read`` makes of the document in ``data``; ``name`` and ``hint`` are said in errors.

    Raises:
        TableError: the file is truncated, changed, or of another format version.
    """
    first, _, body = data.partition(b"\n")
    if first != f"{magic} {hashlib.sha256(body).hexdigest()}".encode():
        raise TableError(f"the data file {name} is damaged", hint)
    try:
        return read(json.loads(body))
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise TableError(f"the data file {name} is damaged: {error}", hint) from error


@functools.cache
def data_file(name: str, decode: Callable[[bytes, str], T]) -> T:
    """The data file called ``name``, decoded. Raises ``TableError``: it cannot be read, or is damaged."""
    try:
        data = (releases.data_folder() / name).read_bytes()
    except OSError as error:
        raise TableError(f"the data file {name} cannot be read: {error}", REINSTALL) from error
    return decode(data, name)


def by_name(groups: Mapping[str, str]) -> dict[str, str]:
    """What is known → names joined by spaces, the other way round."""
    return {name: known for known, names in groups.items() for name in names.split(" ")}


def by_operator(groups: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """The same for operators, whose names stand by namespace."""
    return {
        f"{namespace}::{operator}": known
        for known, namespaces in groups.items()
        for namespace, names in namespaces.items()
        for operator in names.split(" ")
    }


def apply(changes: Mapping[str, str], known: dict[str, str]) -> None:
    """Bring ``known`` (name → what is known of it, joined by spaces) from the base to the release of ``changes``."""
    for name, new in changes.items():
        if new:
            known[name] = new
        else:
            known.pop(name, None)


def split(joined: Mapping[str, str]) -> dict[str, frozenset[str]]:
    """Name → what is known of it, as sets, of which those that are equal are one."""
    sets = {text: frozenset(text.split(" ")) for text in set(joined.values())}
    return {name: sets[text] for name, text in joined.items()}


TABLES = Kind("mpsprobe-kernel-table 1", releases.SUFFIX, {"operators": by_operator})


def to_table(family: KernelFamily, header: Mapping[str, Any], labels: Mapping[str, str]) -> KernelTable:
    """The table of a release of ``family`` from its header and all of its operators."""
    try:
        return KernelTable(
            family,
            release=header["release"],
            labels=split(labels),
            **{name: header[name] for name in PROVENANCE},
            markers=frozenset(header["markers"]),
            only_in_binary={key: tuple(names) for key, names in header["only_in_binary"].items()},
            only_declared={key: tuple(names) for key, names in header["only_declared"].items()},
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise TableError(f"the kernel table of {header.get('release')} is damaged: {error}", REINSTALL) from error
