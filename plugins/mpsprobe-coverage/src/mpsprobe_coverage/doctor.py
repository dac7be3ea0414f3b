"""What ``mpsprobe doctor`` asks of the kernel tables: does the installed torch fit this macOS, and is it known here."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from packaging.version import InvalidVersion, Version

from mpsprobe.declarations import DoctorFinding
from mpsprobe_coverage.knowledge.kernels.mps import load_table, torchvision_for, torchvision_releases
from mpsprobe_coverage.knowledge.kernels.releases import as_version, torch_releases

MACOS = re.compile(r"macos-(\d+(?:\.\d+)*)")


def findings(environment: Mapping[str, Any]) -> Iterator[DoctorFinding]:
    """Findings about the installed torch; nothing is imported for it."""
    installed = environment.get("torch")
    if installed is None:
        return
    releases = torch_releases()
    if installed not in releases:
        yield DoctorFinding(
            "warning",
            f"torch {installed} is installed, and mpsprobe has kernel tables from {releases[0]} to {releases[-1]}",
            "Name a release (coverage --torch latest), or update mpsprobe-coverage.",
        )
        return
    yield DoctorFinding("ok", f"the kernel table of torch {installed} is here")
    fitting, vision = torchvision_for(installed), as_version(environment.get("torchvision") or "")
    if fitting is not None and vision is not None and vision.public not in torchvision_releases(installed):
        yield DoctorFinding(
            "warning",
            f"torchvision {vision} was not made for torch {installed}: its import can fail",
            f"pip install torch=={installed} torchvision=={fitting}",
        )
    yield from _macos(str(installed), str(environment.get("platform", "")))


def _macos(release: str, platform: str) -> Iterator[DoctorFinding]:
    """pip installs wheels on an older macOS than their binary accepts: the tag and the check differ."""
    running, needed = MACOS.match(platform), load_table(release).macos_minimum
    if running is None or needed is None:
        return
    try:
        old = Version(running[1]) < Version(needed)
    except InvalidVersion:
        return
    if old:
        minima = ((release, load_table(release).macos_minimum) for release in reversed(torch_releases()))
        fits = next((release for release, least in minima if least and Version(least) <= Version(running[1])), None)
        hint = "Update macOS" + (f", or install torch {fits}." if fits else ".")
        yield DoctorFinding("error", f"torch {release} needs macOS {needed} for MPS, and this is {running[1]}", hint)
    else:
        yield DoctorFinding("ok", f"macOS {running[1]} is new enough for torch {release} (from {needed} on)")
