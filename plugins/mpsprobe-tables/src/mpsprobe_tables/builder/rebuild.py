"""Releases → data files: finds or downloads each wheel, reads it, and holds the result against what is shipped."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from packaging.version import InvalidVersion, Version

from mpsprobe.errors import TableError, UsageError
from mpsprobe.suggestions import printable
from mpsprobe_coverage.kernels.format import encode
from mpsprobe_coverage.kernels.releases import SUFFIX, data_folder, library_releases, resolve_release
from mpsprobe_coverage.kernels.store import load_table
from mpsprobe_coverage.kernels.table import KernelTable
from mpsprobe_tables.builder.assemble import build_table
from mpsprobe_tables.builder.download import download
from mpsprobe_tables.builder.expectations import BuiltExpectations, rebuild_expectations
from mpsprobe_tables.builder.facts import BuiltFacts, rebuild_facts
from mpsprobe_tables.builder.wheel import Wheel

SHOWN_DIFFERENCES = 20


class Steps(Protocol):
    """What tells the user how far the work is (``mpsprobe.progress``)."""

    def start(self, total: int | None, what: str) -> None: ...

    def advance(self, what: str | None = None) -> None: ...

    def stop(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Request:
    """One table to build; ``wheel`` is ``None`` where it has to be downloaded."""

    library: str
    release: str
    wheel: Path | None = None

    @property
    def file_name(self) -> str:
        return f"{self.library}-{self.release}{SUFFIX}"


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """A table that was built.

    Attributes:
        data: its data file.
        shipped: whether this package has a table of that release.
        same: whether that one has the same bytes.
        differences: what differs, for people; at most 20 lines.
        facts: what the library shows of single kernels; ``None`` for another library than torch.
        expectations: what PyTorch's own tests expect of that release; ``None`` where the wheel does not say.
    """

    table: KernelTable
    file_name: str
    data: bytes
    shipped: bool
    same: bool
    differences: tuple[str, ...]
    facts: BuiltFacts | None = None
    expectations: BuiltExpectations | None = None


def from_versions(versions: Iterable[str], library: str) -> list[Request]:
    """Requests for releases to download.

    Raises:
        UsageError: a version is none, is older than MPS, or is a range.
    """
    return _sorted(Request(library, _release(text, library)) for text in versions)


def from_files(paths: Iterable[str]) -> list[Request]:
    """Requests for wheels that are on disk.

    Raises:
        TableError: a file is not there, or is no macOS wheel of torch or torchvision.
    """
    requests = []
    for text in paths:
        path = Path(text)
        try:
            is_file = path.is_file()
        except (OSError, ValueError):
            is_file = False
        if not is_file:
            raise TableError(f"there is no wheel '{printable(text)}'")
        with Wheel(path) as wheel:
            requests.append(Request(wheel.library, wheel.release, path))
    return _sorted(requests)


def rebuild(requests: Sequence[Request], progress: Steps) -> list[Rebuilt]:
    """Build every request, oldest first; nothing is left on disk, also after Ctrl-C."""
    built: dict[tuple[str, str], Rebuilt] = {}
    for number, request in enumerate(requests):
        wanted = f"{request.library} {request.release}: getting the wheel"
        progress.advance(wanted) if number else progress.start(2 * len(requests), wanted)
        with ExitStack() as stack:
            path = request.wheel
            if path is None:
                folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="mpsprobe-"))
                path = download(request.library, request.release, Path(folder))
            progress.advance(f"{request.library} {request.release}: reading the wheel")
            table = build_table(path)
            with Wheel(path) as wheel:
                facts = rebuild_facts(wheel, table.sha256, [one.facts for one in built.values()])
                expected = rebuild_expectations(wheel, [one.expectations for one in built.values()])
        if (table.library, table.release) != (request.library, request.release):
            raise TableError(f"'{path.name}' is {table.library} {table.release}, not {request.release}")
        compared = _compared(table, request.file_name, built)
        built[table.library, table.release] = replace(compared, facts=facts, expectations=expected)
    progress.stop()
    return list(built.values())


def _compared(table: KernelTable, file_name: str, built: dict[tuple[str, str], Rebuilt]) -> Rebuilt:
    base = _base(table, built)
    data = encode(table, base)
    if table.release not in library_releases(table.library):
        return Rebuilt(table, file_name, data, False, False, ("this package has no table of that release",))
    shipped = load_table(table.release, table.library)
    same = (data_folder() / file_name).read_bytes() == data
    return Rebuilt(table, file_name, data, True, same, () if same else _differences(shipped, table))


def _base(table: KernelTable, built: dict[tuple[str, str], Rebuilt]) -> KernelTable | None:
    """The table of the release before: one that was built just now, or the shipped one."""
    of_library = {release for library, release in built if library == table.library}
    before = {*library_releases(table.library), *of_library}
    older = [release for release in before if Version(release) < Version(table.release)]
    if not older:
        return None
    newest = max(older, key=Version)
    done = built.get((table.library, newest))
    return done.table if done is not None else load_table(newest, table.library)


def _differences(shipped: KernelTable, table: KernelTable) -> tuple[str, ...]:
    lines = []
    for name in ("wheel", "sha256", "commit", "macos_minimum", "requires_torch", "markers"):
        old, new = getattr(shipped, name), getattr(table, name)
        if old != new:
            old, new = (", ".join(sorted(v)) if isinstance(v, frozenset) else v for v in (old, new))
            lines.append(f"{name}: {old} is shipped, {new} was read")
    for operator in sorted(shipped.operators | table.operators):
        old, new = (" ".join(sorted(t.labels.get(operator, ()))) or "nothing" for t in (shipped, table))
        if old != new:
            lines.append(f"{operator}: {old} is shipped, {new} was read")
    if not lines:
        lines.append("the operators are the same, but not those of the release before")
    hidden = len(lines) - SHOWN_DIFFERENCES
    return (*lines[:SHOWN_DIFFERENCES], f"… and {hidden} more") if hidden > 0 else tuple(lines)


def _release(text: str, library: str) -> str:
    if library == "torch":
        try:
            return resolve_release(text)
        except UsageError:
            if not _is_newer(text, library):
                raise
    try:
        version = Version(text.strip())
    except InvalidVersion:
        version = None
    if version is None or version.is_prerelease or len(version.release) != 3 or len(text) > 20:
        raise UsageError(f"'{printable(text)}' is not a version of {library}", "Versions look like 2.13.0 or 0.28.0.")
    return version.public


def _is_newer(text: str, library: str) -> bool:
    """A release that came after this package was made can be built all the same."""
    try:
        return Version(text) > Version(library_releases(library)[-1])
    except InvalidVersion:
        return False


def _sorted(requests: Iterable[Request]) -> list[Request]:
    return sorted(dict.fromkeys(requests), key=lambda request: (request.library, Version(request.release)))
