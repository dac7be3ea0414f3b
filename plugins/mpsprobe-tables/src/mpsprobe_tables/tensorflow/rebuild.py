"""Wheels of tensorflow-metal → the data files of mpsprobe-tensorflow, one for each release."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.utils import parse_wheel_filename
from packaging.version import Version

from mpsprobe.errors import TableError, UsageError
from mpsprobe.output import TemporaryFolder
from mpsprobe.progress import SilentProgress
from mpsprobe.suggestions import printable
from mpsprobe_tables.builder import download
from mpsprobe_tables.builder.wheel import METAL, Wheel
from mpsprobe_tables.encoding import DataFile
from mpsprobe_tables.tensorflow.image import ARCHITECTURES, Image
from mpsprobe_tables.tensorflow.registrations import Reading, Registration, read
from mpsprobe_tensorflow.tables.table import data_folder

PYTHONS = tuple(f"3.{minor}" for minor in range(8, 20))
PAGE = "https://developer.apple.com/documentation/metalperformanceshadersgraph"
SINCE = {
    "class MPSGraph": ("11.0", f"{PAGE}/mpsgraph"),
    "-[MPSGraph GRUWithSourceTensor:recurrentWeight:inputWeight:bias:initState:descriptor:name:]": (
        "13.0",
        f"{PAGE}/mpsgraphgrudescriptor",
    ),
}
"""Questions that do not name a macOS → the first one that answers them with yes, and Apple's page that says so."""


@dataclass(frozen=True, slots=True)
class Release:
    """What was read of one release."""

    release: str
    file: DataFile


def files(versions: Sequence[str], progress: SilentProgress) -> list[DataFile]:
    """The data files of these releases, from wheels that are downloaded; raises as ``rebuild``."""
    with TemporaryFolder() as folder:
        return [rebuilt.file for rebuilt in rebuild(from_versions(versions, Path(folder), progress), progress)]


def from_versions(versions: Sequence[str], folder: Path, progress: SilentProgress) -> list[Path]:
    """Download every macOS wheel of these releases: all architectures and Pythons.

    Raises UsageError: a version is none; TableError: pip cannot reach its index, or that has no wheel of a release.
    """
    for text in versions:
        if not re.fullmatch(r"\d{1,3}\.\d{1,3}\.\d{1,3}", text):
            raise UsageError(f"'{printable(text)[:40]}' is not a version of {METAL}", "Versions look like 1.2.0.")
    wheels: list[Path] = []
    for release in dict.fromkeys(versions):
        progress.advance(f"{METAL} {release}: getting the wheels")
        found = download.download_all(METAL, release, folder, sorted(ARCHITECTURES), PYTHONS)
        if not found:
            raise TableError(f"the package index has no macOS wheel of {METAL} {release}")
        wheels += found
    return wheels


def rebuild(wheels: Iterable[Path], progress: SilentProgress) -> list[Release]:
    """Read wheels, and put those of one release together, oldest first.

    Raises TableError: a wheel is none of the plugin, or does what is not known here.
    """
    by_release: dict[str, list[Path]] = {}
    for path in wheels:
        with Wheel(path) as wheel:
            if wheel.library != METAL:
                raise TableError(f"'{printable(path.name)}' is no wheel of {METAL}")
            by_release.setdefault(wheel.release, []).append(path)
    built = []
    for release in sorted(by_release, key=Version):
        progress.advance(f"{METAL} {release}: reading the wheels")
        document = _document(release, sorted(by_release[release], key=_order))
        data = (json.dumps(document, indent=1) + "\n").encode()
        built.append(Release(release, DataFile.of(Path(str(data_folder())), f"{METAL}-{release}.json", data)))
    return built


def _order(path: Path) -> tuple[str, int]:
    """By architecture, then by Python, oldest first."""
    _, _, _, tags = parse_wheel_filename(path.name)
    tag = next(iter(tags))
    version = re.fullmatch(r"cp3(\d+)", tag.interpreter)
    return tag.platform.partition("_arm64")[1], int(version[1]) if version else 0


def _document(release: str, wheels: Iterable[Path]) -> dict[str, Any]:
    builds: dict[str, dict[str, Any]] = {}
    registered: list[dict[str, Any]] = []
    for path in wheels:
        with Wheel(path) as wheel, TemporaryFolder() as folder:
            library = Path(folder) / "libmetal_plugin.dylib"
            wheel.extract_library(library)
            with library.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            if digest not in builds:
                image = Image(library, wheel.architecture)
                kernels = encode(read(image))
                if kernels not in registered:
                    registered.append(kernels)
                builds[digest] = {
                    "architecture": wheel.architecture,
                    "macos_minimum": image.macos_minimum,
                    "registered": registered.index(kernels),
                    "library_sha256": digest,
                    "wheels": {},
                }
            builds[digest]["wheels"][path.name] = wheel.sha256
    return {"release": release, "builds": list(builds.values()), "registered": registered}


def encode(reading: Reading) -> dict[str, Any]:
    """What one library registers, as the data files have it."""
    groups: dict[tuple[str, tuple[str, ...]], dict[str, list[str]]] = {}
    for kernel, asks in reading.registrations:
        kernels = groups.setdefault((kernel.device, asks), {})
        kernels.setdefault(kernel.operator, []).append(_written(kernel))
    return {
        "defines": list(reading.defined),
        "groups": [
            {
                "device": device,
                "asks": list(asks),
                **_since(asks),
                "kernels": {operator: ";".join(written) for operator, written in sorted(kernels.items())},
            }
            for (device, asks), kernels in groups.items()
        ],
    }


def _written(kernel: Registration) -> str:
    types = ",".join(f"{attribute}={dtype}" for attribute, dtype in kernel.types)
    return types + (f"|{','.join(kernel.host)}" if kernel.host else "")


def _since(asks: Sequence[str]) -> dict[str, str | None]:
    """The macOS that answers all of these with yes, and where that is known from."""
    known: list[tuple[str, str | None]] = []
    for question in asks:
        version = question.removeprefix("macOS ")
        if version != question:
            known.append((version, None))
        elif question in SINCE:
            known.append(SINCE[question])
        else:
            return {"macos": None, "source": None}
    if not known:
        return {"macos": None}
    macos, source = max(known, key=lambda build: Version(build[0]))
    return {"macos": macos, "source": source}
