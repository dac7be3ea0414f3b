"""Which transformers releases this plugin works with."""

from __future__ import annotations

from mpsprobe.errors import MissingPackage, WorkloadError

OLDEST = (5, 0)
"""The first release in which ``transformers.initialization`` exists and configurations keep ``dtype``."""


def check_release() -> None:
    """Raise unless transformers is installed and new enough. Reads its metadata; imports nothing of it.

    Raises:
        MissingPackage: it is not installed.
        WorkloadError: it is older than ``OLDEST``.
    """
    import importlib.metadata

    from packaging.version import InvalidVersion, Version

    try:
        found = importlib.metadata.version("transformers")
    except importlib.metadata.PackageNotFoundError as error:
        raise MissingPackage("a Hugging Face workload", "transformers") from error
    oldest = ".".join(map(str, OLDEST))
    try:
        old = Version(found).release < OLDEST
    except InvalidVersion:
        return  # a local build; let it try
    if old:
        raise WorkloadError(
            f"transformers {found} is too old: mpsprobe-hf needs {oldest} or newer",
            f"Install it: pip install 'transformers>={oldest}'",
        )
