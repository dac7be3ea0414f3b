"""Gets a macOS wheel through the user's own pip, from whatever index that is configured for."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from packaging.version import Version

from mpsprobe.errors import TableError
from mpsprobe.suggestions import printable
from mpsprobe_coverage.knowledge.kernels.mps import load_table
from mpsprobe_coverage.knowledge.kernels.releases import library_releases

ANY_MACOS = "macosx_99_0_arm64"  # pip takes it for a Mac that every wheel for an older macOS fits
PYTHONS = tuple(f"3.{minor}" for minor in range(11, 20))  # the wheels of a release differ in nothing that is read
QUIET = ("--disable-pip-version-check", "--no-input")
ONLY_THIS = ("--quiet", "--no-deps", "--only-binary=:all:")
NOT_FOUND = "No matching distribution found"


def download(library: str, release: str, folder: Path) -> Path:
    """Download the macOS arm64 wheel of a release into ``folder``.

    For a release that has a table, it is the wheel that the table was made from; all wheels of a release have the same
    kernels, but not the same checksum. Raises TableError: pip is missing, cannot reach its index, or the index has no
    such wheel.
    """
    answer = ""
    for platform, python in _tags(library, release):
        finished = _fetch(library, release, folder, platform, python)
        wheels = sorted(folder.glob("*.whl"))
        if finished.returncode == 0 and wheels:
            return wheels[0]
        answer = finished.stderr.strip()
        if NOT_FOUND not in answer:
            break
    if NOT_FOUND in answer:
        raise TableError(
            f"the package index has no macOS arm64 wheel of {library} {release}",
            "If you have the wheel: mpsprobe kernels build --wheel FILE",
        )
    raise TableError(
        f"pip could not download {library} {release}: {printable(_last_line(answer))}",
        "Download the wheel yourself, then: mpsprobe kernels build --wheel FILE",
    )


def download_all(
    library: str, release: str, folder: Path, architectures: Iterable[str], pythons: Iterable[str]
) -> list[Path]:
    """Download every macOS wheel of a release into ``folder``, for each architecture and each Python.

    Raises TableError: pip is missing, or cannot reach its index.
    """
    before = set(folder.glob("*.whl"))
    for architecture, python in itertools.product(architectures, pythons):
        finished = _fetch(library, release, folder, ANY_MACOS.replace("arm64", architecture), python)
        if finished.returncode and NOT_FOUND not in finished.stderr:
            raise TableError(f"pip could not download {library} {release}: {printable(_last_line(finished.stderr))}")
    return sorted(set(folder.glob("*.whl")) - before)


def offered(library: str) -> list[str]:
    """The releases of which the index has a macOS arm64 wheel, oldest first; no release candidates.

    Raises TableError: pip is missing, cannot reach its index, or answers in another form.
    """
    where = ["--platform", ANY_MACOS, "--python-version", PYTHONS[0]]
    finished = _pip("index", "versions", "--only-binary=:all:", *where, library)
    match = re.search(r"^Available versions: (.+)$", finished.stdout, re.MULTILINE)
    if finished.returncode or match is None:
        raise TableError(
            f"pip could not list the releases of {library}: {printable(_last_line(finished.stderr))}",
            "Say which releases to build: mpsprobe kernels build VERSION",
        )
    return sorted({Version(text).public for text in match[1].split(", ")}, key=Version)


def _fetch(library: str, release: str, folder: Path, platform: str, python: str) -> subprocess.CompletedProcess[str]:
    where = ["--platform", platform, "--python-version", python, "--dest", str(folder)]
    return _pip("download", *ONLY_THIS, *where, f"{library}=={release}")


def _pip(command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pip", command, *QUIET, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )


def _last_line(answer: str) -> str:
    return answer.strip().splitlines()[-1] if answer.strip() else "it said nothing"


def _tags(library: str, release: str) -> Iterator[tuple[str, str]]:
    """Platform and Python version to ask pip for, likeliest first."""
    if release in library_releases(library):
        wheel = load_table(release, library).wheel
        match = re.search(r"-(?:cp3(\d+)|py3)-\w+-(macosx_\w+)\.whl$", wheel)
        if match is not None:
            yield match[2], f"3.{match[1]}" if match[1] else PYTHONS[0]
            return
    for python in PYTHONS:
        yield ANY_MACOS, python
