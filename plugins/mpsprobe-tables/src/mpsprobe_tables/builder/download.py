"""Gets a macOS wheel through the user's own pip, from whatever index that is configured for."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from mpsprobe.errors import TableError
from mpsprobe.suggestions import printable
from mpsprobe_coverage.kernels.releases import library_releases
from mpsprobe_coverage.kernels.store import load_table

PLATFORMS = ("macosx_14_0_arm64", "macosx_12_0_arm64", "macosx_11_0_arm64")  # those of all releases to 2.15 and 0.29
PYTHONS = ("3.11", "3.10", "3.12", "3.13")  # 1.12 and 1.13 have no wheel for 3.11
QUIET = ("--disable-pip-version-check", "--no-input", "--quiet")
ONLY_THIS = ("--no-deps", "--only-binary=:all:")
NOT_FOUND = "No matching distribution found"


def download(library: str, release: str, folder: Path) -> Path:
    """Download the macOS arm64 wheel of a release into ``folder``.

    For a release that has a table, it is the wheel that the table was made from; all wheels of a release have the same
    kernels, but not the same checksum.

    Raises:
        TableError: pip is missing, cannot reach its index, or the index has no such wheel.
    """
    answer = ""
    for platform, python in _tags(library, release):
        where = ["--platform", platform, "--python-version", python, "--dest", str(folder)]
        finished = subprocess.run(
            [sys.executable, "-m", "pip", "download", *QUIET, *ONLY_THIS, *where, f"{library}=={release}"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        found = sorted(folder.glob("*.whl"))
        if finished.returncode == 0 and found:
            return found[0]
        answer = finished.stderr.strip()
        if NOT_FOUND not in answer:
            break
    if NOT_FOUND in answer:
        raise TableError(
            f"the package index has no macOS arm64 wheel of {library} {release}",
            "If you have the wheel: mpsprobe kernels build --wheel FILE",
        )
    last = answer.splitlines()[-1] if answer else "it said nothing"
    raise TableError(
        f"pip could not download {library} {release}: {printable(last)}",
        "Download the wheel yourself, then: mpsprobe kernels build --wheel FILE",
    )


def _tags(library: str, release: str) -> Iterator[tuple[str, str]]:
    """Platform and Python version to ask pip for, likeliest first."""
    if release in library_releases(library):
        wheel = load_table(release, library).wheel
        match = re.search(r"-(?:cp3(\d+)|py3)-\w+-(macosx_\w+)\.whl$", wheel)
        if match is not None:
            yield match[2], f"3.{match[1]}" if match[1] else PYTHONS[0]
            return
    for python in PYTHONS:
        for platform in PLATFORMS:
            yield platform, python
