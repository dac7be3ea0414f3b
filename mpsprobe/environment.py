"""Where a report was made, found without importing what is looked at."""

from __future__ import annotations

import platform
import re
from typing import TYPE_CHECKING

from mpsprobe.errors import MissingPackage, MpsprobeError, install_command
from mpsprobe.plugins.discovery import installed
from mpsprobe.version import __version__

__all__ = ["check_version", "collect_environment", "installed", "platform_name"]

if TYPE_CHECKING:
    from mpsprobe.schemas.run import Environment


def collect_environment() -> Environment:
    """Versions of what is installed; torch is not imported for it (that would take 1.5 seconds)."""
    from mpsprobe.schemas.run import Environment

    versions = {name: version for name, (version, _) in installed(["torch", "transformers", "torchvision"]).items()}
    torch, _, build = versions.pop("torch", "").partition("+")
    return Environment(
        mpsprobe=__version__,
        python=platform.python_version(),
        platform=platform_name(),
        torch=torch or None,
        torch_build=build or None,
        **versions,
    )


def platform_name() -> str:
    """System and processor: ``linux-x86_64``, ``macos-14.5-arm64``, ``windows-amd64``.

    macOS has its release in it, because kernels depend on it.
    """
    machine = platform.machine().lower() or "unknown"
    if platform.system() == "Darwin":
        return f"macos-{platform.mac_ver()[0] or 'unknown'}-{machine}"
    return f"{platform.system().lower() or 'unknown'}-{machine}"


def check_version(package: str, plugin: str, feature: str) -> None:
    """Raise unless ``package`` is installed, and as new as the distribution ``plugin`` says it needs. Imports neither.

    Args:
        feature: what needs the package, as ``MissingPackage`` says it.

    Raises:
        MissingPackage: it is not installed.
        MpsprobeError: it is too old; a version that cannot be read is not.
    """
    import importlib.metadata

    from packaging.requirements import Requirement

    requirements = map(Requirement, importlib.metadata.requires(plugin) or [])
    stated = next(each for each in requirements if each.name == package)  # extras come after what is always needed
    wanted = f"{stated.name}{stated.specifier}"
    try:
        version = importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        raise MissingPackage(feature, wanted) from None
    release = re.match(r"\d+(\.\d+)*", version)
    if release and not stated.specifier.contains(release[0]):
        hint = f"Install it: {install_command(wanted)}"
        raise MpsprobeError(f"{package} {version} is too old: {plugin} needs {wanted}", hint)
