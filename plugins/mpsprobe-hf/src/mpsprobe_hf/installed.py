"""Whether distributions that a workload needs are installed. Imports none of them."""

from __future__ import annotations

from collections.abc import Iterable

from mpsprobe.errors import MissingPackage

IMPORT_NAMES = {"pillow": "PIL"}
"""Of distributions that are imported under another name."""


def check_installed(feature: str, distributions: Iterable[str]) -> None:
    """Raise ``MissingPackage`` for the first of ``distributions`` that is not there."""
    from importlib.util import find_spec  # which takes longer than to list every name

    for distribution in distributions:
        if find_spec(IMPORT_NAMES.get(distribution, distribution)) is None:
            raise MissingPackage(feature, distribution)
