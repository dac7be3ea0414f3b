"""What is known of releases of tensorflow-metal: what each goes with, and what threads report of it."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

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
    return tuple(Fit(**entry) for entry in _read("fits.toml")["plugin"])


def fit_of(release: str) -> Fit | None:
    return next((fit for fit in all_fits() if release in fit.releases), None)


def optimizers_off(release: str) -> tuple[str, ...]:
    """The optimizers of grappler that a release of the plugin switches off, as ``RewriterConfig`` names them."""
    groups = _read("grappler.toml")["plugin"]
    return next((tuple(group["off"]) for group in groups if release in group["releases"]), ())


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


@dataclass(frozen=True, slots=True)
class Advisory:
    """What threads report: a wrong result, a slow spot, or what cannot be measured; what is empty is any.

    Those of torch are about calls with their arguments; these are about releases of the plugin and of TensorFlow, as
    far as the threads say.
    """

    id: str
    title: str
    kind: str  # wrong result, slow or measuring
    condition: str
    symptom: str
    workaround: str
    basis: str  # how it is known
    sources: list[str]  # threads
    releases: list[str] = field(default_factory=list)  # of the plugin that it was reported for
    tensorflow: list[str] = field(default_factory=list)  # minor releases that it was reported for
    operators: list[str] = field(default_factory=list)  # that it is about
    phases: list[str] = field(default_factory=list)  # of a workload that it is about
    optimizers: list[str] = field(default_factory=list)  # that it was seen with, by class
    channels_over: int = 0  # it is about convolutions with more output channels; 0 for all calls

    def concerns(self, release: str, tensorflow: str) -> bool:
        """Whether it was reported for a release of the plugin with a version of TensorFlow."""
        fits = not self.tensorflow or minor(tensorflow) in self.tensorflow
        return fits and (not self.releases or release in self.releases)


@functools.cache
def all_advisories() -> tuple[Advisory, ...]:
    """Every one, in the order of the data file."""
    return tuple(Advisory(**entry) for entry in _read("advisories.toml")["advisory"])


class Tables:
    """A ``mpsprobe.protocols.RegisteredKernels``: what ``mpsprobe kernels --backend tensorflow-metal`` lists."""

    label = table.PLUGIN

    def releases(self) -> Sequence[str]:
        return table.releases()

    def installed(self) -> str | None:
        return table.nearest()

    def advisories(self) -> Sequence[Mapping[str, Any]]:
        return [asdict(advisory) for advisory in all_advisories()]

    def table(self, release: str) -> Mapping[str, Any]:
        """The newest build for Apple silicon; ``other_builds`` are those with other kernels."""
        build = table.load(release)
        others = [one for one in table.all_builds(release) if one.on() != build.on()]
        counted = [{**asdict(one), "registrations": len(one.registrations)} for one in others]
        return {**asdict(build), "other_builds": counted}


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads((table.data_folder() / name).read_text(encoding="utf-8"))
