"""The kernels that a release of Apple's plugin registers, as its ``TF_InitKernel`` registers them.

mpsprobe-tables makes the data files (``mpsprobe kernels build --library tensorflow-metal``). A file has what each
build of a release registers: wheels for Intel, and for another Python, can have other kernels.
"""

from __future__ import annotations

import functools
import importlib.metadata
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

from packaging.version import Version

from mpsprobe.errors import TableError, UnknownName, UsageError
from mpsprobe.suggestions import printable

PLUGIN = "tensorflow-metal"
PREFIX, SUFFIX = f"{PLUGIN}-", ".json"
NEWEST_MACOS = "27"
LATEST, INSTALLED, ALL = "latest", "installed", "all"


@dataclass(frozen=True, slots=True)
class Registration:
    """One registered kernel, as ``mpsprobe kernels list --format json`` has it."""

    operator: str  # as a NodeDef names it (Conv2D)
    device: str  # its type: GPU
    # Attribute of the node → the dtype that it must have ({"T": "float32"}), as NumPy writes dtypes, with TensorFlow's
    # own names for those that NumPy lacks (bfloat16, resource, variant, qint8).
    types: Mapping[str, str]
    host: list[str]  # arguments that the kernel takes or gives in host memory


@dataclass(frozen=True, slots=True)
class Conditional:
    """What the plugin registers only if macOS answers a check with yes."""

    asks: list[str]  # all of which must be answered so: "macOS 12.0", "class NAME", "-[CLASS selector]"
    macos: str | None  # from which on that is so; None where no source says
    source: str | None  # of that, where the question itself does not say it
    registrations: list[Registration]


@dataclass(frozen=True, slots=True)
class Table:
    """One build of a release."""

    release: str
    architecture: str  # arm64 or x86_64
    wheels: Mapping[str, str]  # file name → sha256 of each wheel that has this build
    macos_minimum: str | None  # that its library was built for; the tag of a wheel can say an older one
    registrations: list[Registration]  # on every macOS
    conditional: list[Conditional]
    defines: list[str]  # operators of its own, which TensorFlow does not have without it

    def on(self, macos: str | None = None) -> list[Registration]:
        """What it registers on a macOS (``13.2``); on the newest one if none is named."""
        asked = Version(macos or NEWEST_MACOS)
        added = [c.registrations for c in self.conditional if c.macos is not None and Version(c.macos) <= asked]
        return sum(added, self.registrations)


def data_folder() -> Traversable:
    return files("mpsprobe_tensorflow.tables") / "data"


@functools.cache
def releases() -> tuple[str, ...]:
    """The releases of the plugin that have a table, oldest first."""
    names = (entry.name for entry in data_folder().iterdir())
    tables = [name for name in names if name.startswith(PREFIX) and name.endswith(SUFFIX)]
    return tuple(sorted((name.removeprefix(PREFIX).removesuffix(SUFFIX) for name in tables), key=Version))


def chosen(text: str) -> list[str]:
    """``--release`` as exact releases, oldest first.

    ``installed`` is the plugin that is installed, and the newest one where none is. Of one without a table, the nearest
    older one is taken.
    """
    if text == ALL:
        return [*releases()]
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts:
        raise UsageError("--release needs a release", f"For example {releases()[-1]}, installed, latest or all.")
    exact = {(nearest() or releases()[-1]) if part == INSTALLED else resolve(part) for part in parts}
    return sorted(exact, key=Version)


def resolve(release: str) -> str:
    """The exact release that a user means: ``1.2.0``, ``latest``, or ``0.7`` for the newest of its kind."""
    known, wanted = releases(), release.strip()
    fitting = [release for release in known if wanted in (release, LATEST) or release.startswith(f"{wanted}.")]
    if not fitting:
        raise UnknownName(f"release of {PLUGIN}", release, known, f"There are: {', '.join(known)}.")
    return fitting[-1]


def installed(distribution: str = PLUGIN) -> str | None:
    """The version of the plugin, or of another distribution, that is installed; nothing is imported."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def nearest() -> str | None:
    """The release of the table for the installed plugin: its own, the nearest older one, or the oldest."""
    there = installed()
    if there is None:
        return None
    return next((release for release in reversed(releases()) if Version(release) <= Version(there)), releases()[0])


def notes(release: str) -> list[str]:
    """What a reader should know of a release that was judged."""
    there = installed()
    if there is None:
        return [f"{PLUGIN} is not installed here: nothing was run with it"]
    if there not in releases():
        return [f"there is no table of the installed {PLUGIN} {printable(there)}: that of {release} was taken"]
    return []


def load(release: str) -> Table:
    """The newest build of a release for Apple silicon."""
    return next(build for build in reversed(all_builds(release)) if build.architecture == "arm64")


@functools.cache
def all_builds(release: str) -> tuple[Table, ...]:
    """Every build of a release: by architecture, then by the newest Python that it is for."""
    name = f"{PREFIX}{resolve(release)}{SUFFIX}"
    return decode((data_folder() / name).read_bytes(), name)


def decode(data: bytes, name: str) -> tuple[Table, ...]:
    """The builds of one data file, called ``name`` in messages."""
    try:
        document = json.loads(data)
        return tuple(_table(document, build) for build in document["builds"])
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise TableError(f"the table {name} is damaged: {error}", "Install mpsprobe-tensorflow again.") from error


def _table(document: Mapping[str, Any], build: Mapping[str, Any]) -> Table:
    registered = document["registered"][build["registered"]]
    always: list[Registration] = []
    conditional: list[Conditional] = []
    for group in registered["groups"]:
        kernels = [*_kernels(group["device"], group["kernels"])]
        if group["asks"]:
            conditional.append(Conditional(group["asks"], group["macos"], group.get("source"), kernels))
        else:
            always += kernels
    return Table(
        document["release"], build["architecture"], build["wheels"], build["macos_minimum"], always, conditional,
        registered["defines"],
    )  # fmt: skip


def _kernels(device: str, kernels: Mapping[str, str]) -> Iterable[Registration]:
    """``{"Cast": "SrcT=float32,DstT=int32;…", "Fill": "T=float32|dims"}``: types, then arguments in host memory."""
    for operator, written in kernels.items():
        for kernel in written.split(";"):
            types, _, host = kernel.partition("|")
            attributes = dict(pair.split("=", 1) for pair in types.split(",") if pair)
            yield Registration(operator, device, attributes, host.split(",") if host else [])
