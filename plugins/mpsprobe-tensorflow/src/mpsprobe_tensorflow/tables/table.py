"""The kernels that a release of Apple's plugin registers, as its ``TF_InitKernel`` registers them.

mpsprobe-tables makes the data files (``mpsprobe kernels build --library tensorflow-metal``). A file has what each
build of a release registers: wheels for Intel, and for another Python, can have other kernels.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

from packaging.version import Version

from mpsprobe.errors import TableError, UnknownName

PLUGIN = "tensorflow-metal"
PREFIX, SUFFIX = f"{PLUGIN}-", ".json"
NEWEST_MACOS = "27"
LATEST = "latest"


@dataclass(frozen=True, slots=True)
class Registration:
    """One registered kernel.

    Attributes:
        operator: as a ``NodeDef`` names it (``Conv2D``).
        device: its device type: ``GPU``.
        types: attribute of the node → the dtype that it must have (``{"T": "float32"}``), as NumPy writes dtypes, with
            TensorFlow's own names for those that NumPy lacks (``bfloat16``, ``resource``, ``variant``, ``qint8``).
        host: arguments that the kernel takes or gives in host memory.
    """

    operator: str
    device: str
    types: Mapping[str, str]
    host: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """As ``mpsprobe kernels list --format json`` has it."""
        return {
            "operator": self.operator,
            "device": self.device,
            "types": dict(self.types),
            "host": list(self.host),
        }


@dataclass(frozen=True, slots=True)
class Conditional:
    """What the plugin registers only if macOS answers a check with yes.

    Attributes:
        asks: the questions, all of which must be answered so: ``macOS 12.0``, ``class NAME``, ``-[CLASS selector]``.
        macos: the macOS from which on that is so; None where no source says.
        source: of that, where the question itself does not say it.
    """

    asks: tuple[str, ...]
    macos: str | None
    source: str | None
    registrations: tuple[Registration, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """One build of a release.

    Attributes:
        architecture: ``arm64`` or ``x86_64``.
        wheels: file name → sha256 of each wheel that has this build.
        macos_minimum: the oldest macOS that its library was built for; the tag of a wheel can say an older one.
        registrations: what it registers on every macOS.
        conditional: what it registers besides, on some.
        defines: operators of its own, which TensorFlow does not have without it.
    """

    release: str
    architecture: str
    wheels: Mapping[str, str]
    macos_minimum: str | None
    registrations: tuple[Registration, ...]
    conditional: tuple[Conditional, ...]
    defines: tuple[str, ...]

    def on(self, macos: str | None = None) -> tuple[Registration, ...]:
        """What it registers on a macOS (``13.2``); on the newest one if none is named."""
        asked = Version(macos or NEWEST_MACOS)
        added = [c.registrations for c in self.conditional if c.macos is not None and Version(c.macos) <= asked]
        return sum(added, self.registrations)

    @property
    def operators(self) -> frozenset[str]:
        """Every operator with a kernel on some macOS."""
        return frozenset(one.operator for one in self.on())


def data_folder() -> Traversable:
    """Where the data files lie."""
    return files("mpsprobe_tensorflow.tables") / "data"


@functools.cache
def releases() -> tuple[str, ...]:
    """The releases of the plugin that have a table, oldest first."""
    names = (entry.name for entry in data_folder().iterdir())
    found = [n.removeprefix(PREFIX).removesuffix(SUFFIX) for n in names if n.startswith(PREFIX) and n.endswith(SUFFIX)]
    return tuple(sorted(found, key=Version))


def resolve(release: str) -> str:
    """The exact release that a user means: ``1.2.0``, ``latest``, or ``0.7`` for the newest of its kind.

    Raises:
        UnknownName: there is none; carries the nearest ones.
    """
    known, wanted = releases(), release.strip()
    if wanted == LATEST:
        return known[-1]
    fitting = [one for one in known if one == wanted or one.startswith(f"{wanted}.")]
    if not fitting:
        raise UnknownName(f"release of {PLUGIN}", release, known, f"There are: {', '.join(known)}.")
    return fitting[-1]


def registrations(release: str, macos: str | None = None) -> list[dict[str, Any]]:
    """One entry for each kernel that a release registers: operator, device, types, host.

    Args:
        release: of the plugin.
        macos: with what it registers on that macOS only; without, what it registers on every one.

    Raises:
        UnknownName: there is no such release.
    """
    table = load(release)
    return [one.as_dict() for one in (table.registrations if macos is None else table.on(macos))]


def load(release: str, architecture: str = "arm64") -> Table:
    """The newest build of a release for one architecture.

    Raises:
        UnknownName: there is no such release, or it has no wheel for that architecture.
    """
    builds = all_builds(release)
    for table in reversed(builds):
        if table.architecture == architecture:
            return table
    known = sorted({table.architecture for table in builds})
    raise UnknownName(f"architecture of {PLUGIN} {resolve(release)}", architecture, known)


def all_builds(release: str) -> tuple[Table, ...]:
    """Every build of a release: by architecture, then by the newest Python that it is for.

    Raises:
        UnknownName: there is no such release.
        TableError: the data file is damaged.
    """
    return _builds(resolve(release))


@functools.cache
def _builds(release: str) -> tuple[Table, ...]:
    return decode((data_folder() / f"{PREFIX}{release}{SUFFIX}").read_bytes(), f"{PREFIX}{release}{SUFFIX}")


def decode(data: bytes, name: str) -> tuple[Table, ...]:
    """The builds of one data file, called ``name`` in messages.

    Raises:
        TableError: it is damaged.
    """
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
        kernels = tuple(_kernels(group["device"], group["kernels"]))
        if group["asks"]:
            conditional.append(Conditional(tuple(group["asks"]), group["macos"], group.get("source"), kernels))
        else:
            always += kernels
    return Table(
        document["release"], build["architecture"], build["wheels"], build["macos_minimum"], tuple(always),
        tuple(conditional), tuple(registered["defines"]),
    )  # fmt: skip


def _kernels(device: str, kernels: Mapping[str, str]) -> Iterable[Registration]:
    """``{"Cast": "SrcT=float32,DstT=int32;…", "Fill": "T=float32|dims"}``: types, then arguments in host memory."""
    for operator, written in kernels.items():
        for kernel in written.split(";"):
            types, _, host = kernel.partition("|")
            attributes = {name: dtype for name, _, dtype in (pair.partition("=") for pair in types.split(",") if pair)}
            yield Registration(operator, device, attributes, tuple(host.split(",")) if host else ())
