"""The kernel tables of MPS, which come with this package: read from the macOS wheels of every release since 1.12.0."""

from __future__ import annotations

import functools
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from mpsprobe.errors import UnknownName, UsageError
from mpsprobe.protocols import Backend, BackendKernels
from mpsprobe.suggestions import printable
from mpsprobe_coverage.knowledge.kernels import live
from mpsprobe_coverage.knowledge.kernels.compositions import load_compositions
from mpsprobe_coverage.knowledge.kernels.format import TABLES, DataFile, to_table
from mpsprobe_coverage.knowledge.kernels.releases import as_version, library_releases, torch_releases
from mpsprobe_coverage.knowledge.kernels.table import MPS, NATIVE, UNKNOWN, KernelFamily, KernelTable, verdict_of

if TYPE_CHECKING:
    from mpsprobe.schemas import Target

MPS_BACKEND = Backend("mps", MPS, label="MPS", variable="PYTORCH_ENABLE_MPS_FALLBACK=1")
FIRST_WITH_MPS = Version("1.12")
LAST_FOR_INTEL = Version("2.2.2")
"""The last release with a wheel for x86_64. Those wheels register what the arm64 ones do; torchvision's do not: the
macosx_10_13_x86_64 ones of 0.16.0 to 0.17.2 have no symbol that speaks of MPS, where the arm64 ones have fifty."""
UNPINNED_TORCHVISION = {"0.13.0": "==1.12.0", "0.13.1": "==1.12.1", "0.14.0": "==1.13.0", "0.14.1": "==1.13.1"}
"""Releases whose metadata asks for any torch; the pairs are those of the table in torchvision's README."""


class MpsFamily(KernelFamily):
    """The tables of MPS. ``MPS_FAMILY`` is the only one."""

    name = MPS_BACKEND.device
    backend = MPS_BACKEND
    owner = "mpsprobe-coverage"
    libraries = ("torchvision",)
    runs_on_macos = True
    machine = "a Mac"
    # "Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64": in every libtorch.
    # Quantized tensors have a dispatch key of their own (QuantizedMPS), under which no release registers anything.
    refused_dtypes = {
        **dict.fromkeys(("float64", "complex128"), "MPS has no 64-bit floating point"),
        **dict.fromkeys(("quint8", "qint8", "qint32", "quint4x2", "quint2x4"), "MPS has no quantized tensors"),
    }

    @property
    def releases(self) -> tuple[str, ...]:
        return torch_releases()

    @property
    def releases_in_words(self) -> str:
        return (
            f"Kernel tables are there for {self.releases[0]} to {self.releases[-1]}: mpsprobe kernels list --torch all"
        )

    def load(self, release: str) -> KernelTable:
        return load_table(release)

    def running(self) -> KernelTable | None:
        return live_table() if live.has_mps_build() else None

    def report_target(self, table: KernelTable, macos: str | None) -> Target:
        from mpsprobe.schemas import TableProvenance, Target

        provenance = TableProvenance(wheel=table.wheel, sha256=table.sha256) if table.wheel else None
        return Target(torch=table.release, macos_minimum=table.macos_minimum, macos=macos, table=provenance)

    def notes(self, table: KernelTable, native: Collection[str]) -> list[str]:
        names = sorted(name for name in native if name.startswith("torchvision::"))
        if not names or Version(table.release) > LAST_FOR_INTEL:
            return []
        return [f"On an Intel Mac torchvision has no MPS kernels, so there {', '.join(names)} would raise"]

    def resolve(self, text: str) -> str:
        version = as_version(text.strip())
        if version is not None and version.release < FIRST_WITH_MPS.release:
            raise UsageError(
                f"torch {printable(text.strip())} has no MPS backend: MPS came with 1.12",
                f"Ask for a release from {self.releases[0]} to {self.releases[-1]}.",
            )
        return super().resolve(text)

    @functools.cached_property
    def operators(self) -> frozenset[str]:
        return frozenset(
            name
            for library in ("torch", *self.libraries)
            for file in _chain(library)
            for name in file.changes["operators"]
        )

    def history(self, operator: str, key: str | None = None) -> tuple[tuple[str, str], ...]:
        return _history(operator, key or MPS)

    def is_made_of_native(self, operator: str, release: str) -> bool:
        # Where it calls nothing that is known, it may compute by itself: code behind a DispatchStub is not seen.
        parts = load_compositions(release).parts(operator, self.load(release))
        return bool(parts) and all(self.load(release).verdict(part) == NATIVE for part in parts)

    def _has(self, operator: str, release: str) -> bool:
        return dict(self.history(operator))[release] != UNKNOWN

    def library(self, name: str, release: str) -> KernelTable | None:
        version = torchvision_for(release) if name in self.libraries else None
        return None if version is None else load_table(version, name)

    def optimizer_forms(self, table: KernelTable) -> frozenset[str]:
        return frozenset(form for form in ("foreach", "fused") if f"{form}_mps" in table.markers)


MPS_FAMILY = MpsFamily()


class MpsTables:
    """The tables of MPS as a plugin's: a ``mpsprobe.protocols.KernelTables``."""

    backend = MPS_BACKEND

    def releases(self) -> Sequence[str]:
        return torch_releases()

    def table(self, release: str) -> BackendKernels:
        table = load_table(release)
        kernels = {**table.keys, MPS: table.native | table.python}
        return BackendKernels(release, kernels, table.wheel, table.sha256, fallback=table.fallback, raising=table.error)


@functools.cache
def load_table(release: str, library: str = "torch") -> KernelTable:
    """The table of one release of ``library``, by its exact version; takes a few milliseconds."""
    known = TABLES.known(release, library)
    if known is None:
        raise UnknownName(f"{library} release", release, library_releases(library))
    header, parts = known
    return to_table(MPS_FAMILY, header, parts["operators"])


@functools.cache
def live_table() -> KernelTable:
    """What the installed torch has registered at this moment, for MPS and in general; nothing runs on the GPU.

    Its ``markers`` are those of the shipped table of the same release, if there is one: a process does not tell them.
    """
    import torch

    release = Version(torch.__version__).public
    shipped = load_table(release) if release in torch_releases() else None
    return KernelTable(
        MPS_FAMILY,
        release,
        live.labels(live.MPS_KEYS),
        commit=torch.version.git_version,
        macos_minimum=shipped.macos_minimum if shipped else None,
        markers=shipped.markers if shipped else frozenset(),
    )


@functools.cache
def torchvision_for(torch_release: str) -> str | None:
    """The newest torchvision release made for ``torch_release``; ``None`` when there is none with a table."""
    return next(reversed(torchvision_releases(torch_release)), None)


def torchvision_releases(torch_release: str) -> list[str]:
    """The torchvision releases with a table that were made for ``torch_release``, oldest first."""
    required = {
        release: UNPINNED_TORCHVISION.get(release) or load_table(release, "torchvision").requires_torch
        for release in library_releases("torchvision")
    }
    return [release for release, torch in required.items() if torch_release in SpecifierSet(torch)]


@functools.lru_cache(maxsize=4096)
def _history(operator: str, key: str) -> tuple[tuple[str, str], ...]:
    """From the files themselves: no table of all operators is made for a question about one."""
    namespace = operator.partition("::")[0]
    library = namespace if namespace in MPS_FAMILY.libraries else "torch"
    by_release: dict[str | None, tuple[str, ...]] = {}
    labels = ""
    for file in _chain(library):
        labels = file.changes["operators"].get(operator, labels)
        by_release[file.release] = tuple(labels.split(" ")) if labels else ()
    versions = {release: release if library == "torch" else torchvision_for(release) for release in torch_releases()}
    return tuple((release, verdict_of(by_release.get(version, ()), key)) for release, version in versions.items())


@functools.cache
def releases_marked(marker: str) -> frozenset[str]:
    """The torch releases whose library has ``marker``; no table is made for it."""
    return frozenset(file.release for file in _chain("torch") if marker in file.header.get("markers", ()))


@functools.cache
def _chain(library: str) -> tuple[DataFile, ...]:
    return tuple(TABLES.files(library))
