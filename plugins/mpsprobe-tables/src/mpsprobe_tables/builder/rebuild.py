"""Releases → data files: finds or downloads each wheel, reads it, and compares the result with what is shipped.

``review`` says what a person has to look at when a release has come in: what no program can decide.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar

from packaging.version import InvalidVersion, Version

from mpsprobe.errors import TableError, UsageError
from mpsprobe.output import TemporaryFolder
from mpsprobe.progress import SilentProgress
from mpsprobe.suggestions import printable
from mpsprobe_coverage.knowledge.kernels.compositions import (
    COMPOSITIONS,
    Compositions,
    composition_releases,
    load_compositions,
)
from mpsprobe_coverage.knowledge.kernels.kernel_facts import FACTS, KernelFacts, facts_releases, load_facts
from mpsprobe_coverage.knowledge.kernels.mps import MPS_FAMILY, load_table
from mpsprobe_coverage.knowledge.kernels.releases import SUFFIX, data_folder, library_releases
from mpsprobe_coverage.knowledge.kernels.table import KernelTable
from mpsprobe_tables.builder.assemble import read_table
from mpsprobe_tables.builder.compositions import read_compositions
from mpsprobe_tables.builder.download import download
from mpsprobe_tables.builder.expectations import (
    CannotBeImported,
    has_expectations,
    has_module_marks,
    read_expectations,
    read_module_marks,
)
from mpsprobe_tables.builder.facts import read_facts
from mpsprobe_tables.builder.messages import read_messages
from mpsprobe_tables.builder.wheel import Wheel
from mpsprobe_tables.encoding import DataFile, encode_compositions, encode_facts, encode_table
from mpsprobe_tables.expectations import FILES as EXPECTATIONS
from mpsprobe_tables.expectations import Expectations
from mpsprobe_tables.messages import FILES as MESSAGES
from mpsprobe_tables.messages import Messages
from mpsprobe_tables.module_marks import FILES as MARKS
from mpsprobe_tables.own_files import DATA, OwnFiles

SHOWN_DIFFERENCES = 20
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Request:
    """One table to build; ``wheel`` is ``None`` where it has to be downloaded."""

    library: str
    release: str
    wheel: Path | None = None


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What was read from one wheel."""

    table: KernelTable  # its kernel table
    facts: KernelFacts | None  # what the library shows of single kernels; ``None`` for another library than torch
    compositions: Compositions | None  # of which operators composite ones and derivatives are made; ``None`` likewise
    # What PyTorch's own tests expect of that release; ``None`` where the wheel does not say.
    expectations: Expectations | None
    messages: Messages | None  # what its MPS code raises with; ``None`` for another library than torch
    kept: tuple[str, ...]  # why expectations are those that were stored, and not read again
    files: tuple[DataFile, ...]  # the data files; that of the table first

    @property
    def differences(self) -> tuple[str, ...]:
        """What differs from the table that this package ships, for people."""
        if not self.files[0].shipped:
            return ("this package has no table of that release",)
        if self.files[0].same:
            return ()
        changes = tuple(table_changes(load_table(self.table.release, self.table.library), self.table))
        return changes or ("the operators are the same, but not those of the release before",)


@dataclass(frozen=True)
class _Series(Generic[T]):
    """The data files of one kind, each of which says what differs from the release before."""

    folder: Path
    name: str  # of a file, with ``{}`` for the release
    shipped: Sequence[str]  # the releases that have one
    load: Callable[[str], T]
    encode: Callable[[T, T | None], bytes]
    made: dict[str, T] = field(default_factory=dict)

    def read_or_kept(self, wheel: Wheel, read: Callable[[Wheel], T]) -> tuple[T, tuple[str, ...]]:
        """What ``read``, which executes code of the wheel, makes of it; or what is shipped, and why it is kept.

        Of a release that is known, only the wheel that was read before is executed: its digest is stored.
        """
        stored = self.load(wheel.release) if wheel.release in self.shipped else None
        if stored is not None and getattr(stored, "sha256", wheel.sha256) != wheel.sha256:
            return stored, (
                "its test modules are not executed: the digest is not that of the wheel that was read before",
            )
        try:
            return read(wheel), ()
        except CannotBeImported as error:
            if stored is None:
                raise
            return stored, (error.message,)

    def add(self, release: str, made: T) -> DataFile:
        """The file of ``release``, on top of one that was added just now, or a shipped one."""
        older = (version for version in {*self.shipped, *self.made} if Version(version) < Version(release))
        before = max(older, key=Version, default=None)
        base = None if before is None else self.made.get(before) or self.load(before)
        self.made[release] = made
        return DataFile.of(self.folder, self.name.format(release), self.encode(made, base))


def _of_own(files: OwnFiles[T]) -> _Series[T]:
    return _Series(DATA, files.name, files.releases(), files.load, files.encode)


def from_versions(versions: Iterable[str], library: str) -> list[Request]:
    """Requests for releases to download. Raises UsageError: a version is none, is older than MPS, or is a range."""
    return _sorted(Request(library, _release(text, library)) for text in versions)


def from_files(paths: Iterable[str]) -> list[Request]:
    """Requests for wheels that are on disk.

    Raises TableError: a file is not there, or is no macOS wheel of torch or torchvision.
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


def rebuild(requests: Sequence[Request], progress: SilentProgress) -> list[Rebuilt]:
    """Build every request, oldest first; nothing is left on disk, also after Ctrl-C."""
    folder = Path(str(data_folder()))
    tables = {
        name: _Series(
            folder, f"{name}-{{}}{SUFFIX}", library_releases(name), partial(load_table, library=name), encode_table
        )
        for name in ("torch", "torchvision")
    }
    facts = _Series(folder, f"torch-{{}}{FACTS.suffix}", facts_releases(), load_facts, encode_facts)
    names = f"torch-{{}}{COMPOSITIONS.suffix}"
    compositions = _Series(folder, names, composition_releases(), load_compositions, encode_compositions)
    expectations, marks, messages = _of_own(EXPECTATIONS), _of_own(MARKS), _of_own(MESSAGES)
    built = []
    for number, request in enumerate(requests):
        wanted = f"{request.library} {request.release}: getting the wheel"
        progress.advance(wanted) if number else progress.start(2 * len(requests), wanted)
        with ExitStack() as stack:
            path = request.wheel
            if path is None:
                downloads = stack.enter_context(TemporaryFolder())
                path = download(request.library, request.release, Path(downloads))
            progress.advance(f"{request.library} {request.release}: reading the wheel")
            wheel = stack.enter_context(Wheel(path))
            if (wheel.library, wheel.release) != (request.library, request.release):
                raise TableError(f"'{path.name}' is {wheel.library} {wheel.release}, not {request.release}")
            table = read_table(wheel)
            files = [tables[wheel.library].add(wheel.release, table)]
            made = composed = expected = raised = None
            kept: tuple[str, ...] = ()
            if wheel.library == "torch":
                made = read_facts(wheel.binary, wheel.release, wheel.sha256)
                files.append(facts.add(wheel.release, made))
                libraries = wheel.binary, wheel.python_binary
                composed = read_compositions(*libraries, table.operators, wheel.release, wheel.sha256)
                files.append(compositions.add(wheel.release, composed))
                raised = Messages(wheel.release, read_messages(wheel.binary))
                files.append(messages.add(wheel.release, raised))
            if has_expectations(wheel):
                expected, kept = expectations.read_or_kept(wheel, read_expectations)
                files.append(expectations.add(wheel.release, expected))
            if has_module_marks(wheel):
                marked, also = marks.read_or_kept(wheel, read_module_marks)
                kept = kept or also
                files.append(marks.add(wheel.release, marked))
            built.append(Rebuilt(table, made, composed, expected, raised, kept, tuple(files)))
    progress.stop()
    return built


def table_changes(old: KernelTable, new: KernelTable) -> Iterator[str]:
    """What differs between two tables, for people; at most 21 lines."""
    lines = []
    for name in ("wheel", "sha256", "commit", "macos_minimum", "requires_torch"):
        was, now = getattr(old, name), getattr(new, name)
        if was != now:
            lines.append(f"{name}: {was} → {now}")
    lines += [f"marker {marker}: gone" for marker in sorted(old.markers - new.markers)]
    lines += [f"marker {marker}: new" for marker in sorted(new.markers - old.markers)]
    for operator in sorted(old.operators | new.operators):
        was, now = (" ".join(sorted(t.labels.get(operator, ()))) or "nothing" for t in (old, new))
        if was != now:
            lines.append(f"{operator}: {was} → {now}")
    yield from lines[:SHOWN_DIFFERENCES]
    if len(lines) > SHOWN_DIFFERENCES:
        yield f"… and {len(lines) - SHOWN_DIFFERENCES} more"


def _release(text: str, library: str) -> str:
    if library == "torch":
        try:
            return MPS_FAMILY.resolve(text)
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
    """A release that came after this package was made can be built too."""
    try:
        return Version(text) > Version(library_releases(library)[-1])
    except InvalidVersion:
        return False


def _sorted(requests: Iterable[Request]) -> list[Request]:
    return sorted(dict.fromkeys(requests), key=lambda request: (request.library, Version(request.release)))


LONGEST_LINE = 160


def review(before: Rebuilt, new: Rebuilt) -> Iterator[str]:
    """Lines about ``new``, compared with the release before it."""
    old, table = before.table, new.table
    yield f"{table.library} {table.release}, compared with {old.release}"
    yield (
        f"  {len(table.native)} operators have a kernel: {len(table.native - old.native)} new, "
        f"{len(old.native - table.native)} no more"
    )
    yield from _listed("lost their kernel", (old.native - table.native) & table.operators)
    yield from _listed("new dispatch keys", table.keys.keys() - old.keys.keys())
    yield from _listed("new markers", table.markers - old.markers)
    yield from _listed("markers that are gone", old.markers - table.markers)
    yield from _listed("only in the binary", _names(table.only_in_binary.values()))
    yield from _listed("only in native_functions.yaml", _names(table.only_declared.values()))
    yield from (f"  {why}: what is stored is kept" for why in new.kept)
    if table.macos_minimum != old.macos_minimum:
        yield f"  oldest macOS: {old.macos_minimum} → {table.macos_minimum}"
    if table.requires_torch:
        yield f"  made for torch {table.requires_torch}"
    yield from undecided(new)


def undecided(rebuilt: Rebuilt) -> Iterator[str]:
    """Lines about messages of the library that nobody has decided on."""
    messages = () if rebuilt.messages is None else tuple(rebuilt.messages.undecided())
    if messages:
        yield "  raised by MPS code, without a marker and without a decision (decisions.toml: is one a refusal?):"
        yield from (f"    {printable(text)[:LONGEST_LINE]}" for text in messages)


def _names(groups: Collection[tuple[str, ...]]) -> set[str]:
    return {name for group in groups for name in group}


def _listed(what: str, names: Collection[str]) -> Iterator[str]:
    if names:
        yield f"  {what}: {', '.join(sorted(names))}"
