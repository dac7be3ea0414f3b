"""Which release of tensorflow-metal goes with which TensorFlow, Python, processor and macOS."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass

from packaging.utils import parse_wheel_filename
from packaging.version import InvalidVersion, Version

from mpsprobe_tensorflow.tables import table

DOCUMENTED, SEEN, FAILS, UNKNOWN = "documented", "seen", "fails", "unknown"


@dataclass(frozen=True, slots=True)
class Fit:
    """What is known of some releases of the plugin; of TensorFlow, minor releases."""

    releases: list[str]
    documented: list[str]  # those that Apple names for them
    seen: tuple[str, ...] = ()  # others that they were reported to load with
    fails: tuple[str, ...] = ()  # those that they were reported not to load with
    error: str = ""  # what is said then
    sources: tuple[str, ...] = ()  # of seen, fails and error: threads

    def with_tensorflow(self, version: str) -> str:
        """``documented``, ``seen``, ``fails`` or ``unknown``, for a version of TensorFlow."""
        wanted = minor(version)
        for kind, known in ((DOCUMENTED, self.documented), (FAILS, self.fails), (SEEN, self.seen)):
            if wanted in known:
                return kind
        return UNKNOWN


@functools.cache
def all_fits() -> tuple[Fit, ...]:
    """What is known, oldest releases first."""
    text = (table.data_folder() / "fits.toml").read_text(encoding="utf-8")
    return tuple(Fit(**entry) for entry in tomllib.loads(text)["plugin"])


def fit_of(release: str) -> Fit | None:
    return next((fit for fit in all_fits() if release in fit.releases), None)


def optimizers_off(release: str) -> tuple[str, ...]:
    """The optimizers of grappler that a release of the plugin switches off, as ``RewriterConfig`` names them."""
    text = (table.data_folder() / "grappler.toml").read_text(encoding="utf-8")
    groups = tomllib.loads(text)["plugin"]
    return next((tuple(one["off"]) for one in groups if release in one["releases"]), ())


def releases_for(tensorflow: str) -> list[str]:
    """The plugin's releases that load with a version of TensorFlow, best last: documented ones before those seen."""
    by_kind: dict[str, list[str]] = {SEEN: [], DOCUMENTED: []}
    for fit in all_fits():
        by_kind.setdefault(fit.with_tensorflow(tensorflow), []).extend(fit.releases)
    return by_kind[SEEN] + by_kind[DOCUMENTED]


def wheel_for(release: str, architecture: str, python: str) -> table.Table | None:
    """The build of a release that pip installs for a processor and a Python (``3.11``); None without a wheel."""
    interpreter = f"cp{''.join(python.split('.')[:2])}"
    return next((build for build, tag in _wheels(release, architecture) if tag == interpreter), None)


def pythons(release: str, architecture: str) -> list[str]:
    """The Pythons that a release has wheels for (``3.12``), oldest first."""
    minors = {tag.removeprefix("cp3") for _, tag in _wheels(release, architecture)}
    return [f"3.{number}" for number in sorted(minors, key=int)]


def _wheels(release: str, architecture: str) -> Iterator[tuple[table.Table, str]]:
    """Each build for a processor with each interpreter (``cp311``) that it has a wheel for."""
    for build in table.all_builds(release):
        for wheel in build.wheels if build.architecture == architecture else ():
            yield from ((build, tag.interpreter) for tag in parse_wheel_filename(wheel)[3])


def minor(version: str) -> str:
    """``2.18`` of ``2.18.1``; the text itself if it is no version."""
    try:
        release = Version(version).release
    except InvalidVersion:
        return version
    return ".".join(str(part) for part in (*release, 0)[:2])
