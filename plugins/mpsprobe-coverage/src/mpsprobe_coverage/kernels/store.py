"""The tables that come with the package, and questions about one operator through all releases."""

from __future__ import annotations

import functools
from collections.abc import Iterator

from mpsprobe.errors import TableError, UnknownName
from mpsprobe_coverage.kernels import format as table_format
from mpsprobe_coverage.kernels.releases import SUFFIX, data_folder, library_releases, torch_releases, torchvision_for
from mpsprobe_coverage.kernels.table import MPS, NATIVE, UNKNOWN, KernelTable, verdict_of

LIBRARY_OF_NAMESPACE = {"torchvision": "torchvision"}
"""Namespaces whose operators come with another distribution than torch."""


@functools.cache
def _file(library: str, release: str) -> table_format.TableFile:
    name = f"{library}-{release}{SUFFIX}"
    try:
        data = (data_folder() / name).read_bytes()
    except OSError as error:
        raise TableError(f"the kernel table {name} cannot be read: {error}", table_format.REINSTALL) from error
    return table_format.decode(data, name)


@functools.cache
def _chain(library: str) -> tuple[table_format.TableFile, ...]:
    """The files of ``library``, oldest first, each based on the one before."""
    chain = tuple(_file(library, release) for release in library_releases(library))
    base = None
    for file in chain:
        if file.base != base:
            raise TableError(f"the kernel table {library}-{file.release}{SUFFIX} does not fit", table_format.REINSTALL)
        base = file.release
    return chain


@functools.cache
def load_table(release: str, library: str = "torch") -> KernelTable:
    """The table of one release of ``library``, by its exact version; takes a few milliseconds.

    Raises:
        UnknownName: there is no table of that release.
        TableError: a data file is damaged.
    """
    if release not in library_releases(library):
        raise UnknownName(f"{library} release", release, library_releases(library))
    labels: dict[str, str] = {}
    for file in _chain(library):
        table_format.apply(file.changes, labels)
        if file.release == release:
            break
    return table_format.to_table(file.header, labels)


def table_for(operator: str, torch_release: str) -> KernelTable | None:
    """The table that tells about ``operator`` on ``torch_release``: torchvision's own for its operators.

    ``None`` when no torchvision release with a table belongs to that torch release.
    """
    library = LIBRARY_OF_NAMESPACE.get(operator.partition("::")[0], "torch")
    if library == "torch":
        return load_table(torch_release)
    release = torchvision_for(torch_release)
    return None if release is None else load_table(release, library)


@functools.lru_cache(maxsize=4096)
def history(operator: str, key: str = MPS) -> tuple[tuple[str, str], ...]:
    """``(torch release, verdict)`` for every torch release, oldest first, on tensors of dispatch key ``key``."""
    return tuple((release, verdict_of(labels, key)) for release, labels in _labels_by_release(operator))


def native_since(operator: str, key: str = MPS) -> str | None:
    """The first release from which ``operator`` has been native without a gap; ``None`` if the newest is not."""
    since = None
    for release, verdict in reversed(history(operator, key)):
        if verdict != NATIVE:
            break
        since = release
    return since


def removed_in(operator: str) -> str | None:
    """The first release that no longer has ``operator``; ``None`` while it is there, or if it never was."""
    releases = history(operator)
    last = max((index for index, (_, verdict) in enumerate(releases) if verdict != UNKNOWN), default=None)
    return None if last is None or last + 1 == len(releases) else releases[last + 1][0]


@functools.cache
def all_operators() -> frozenset[str]:
    """Every operator of every release, torchvision's included."""
    libraries = ("torch", *LIBRARY_OF_NAMESPACE.values())
    return frozenset(operator for library in libraries for file in _chain(library) for operator in file.changes)


def _labels_by_release(operator: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    library = LIBRARY_OF_NAMESPACE.get(operator.partition("::")[0], "torch")
    by_release: dict[str, tuple[str, ...]] = {}
    labels = ""
    for file in _chain(library):
        labels = file.changes.get(operator, labels)
        by_release[file.release] = tuple(labels.split(" ")) if labels else ()
    for release in torch_releases():
        own = release if library == "torch" else torchvision_for(release)
        yield release, by_release.get(own, ()) if own is not None else ()
