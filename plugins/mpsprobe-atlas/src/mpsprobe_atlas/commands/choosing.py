"""The store that a command reads: the one that is named, or the data of this distribution."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import click

from mpsprobe.errors import UsageError
from mpsprobe_atlas.store import Store

STORE_OPTION = click.option(
    "--store", metavar="FILE", help="What 'atlas sweep' wrote [default: the data that mpsprobe-atlas comes with]."
)


def installed() -> Path:
    """Where the data of this distribution lies, whether it has any or not."""
    return Path(str(resources.files("mpsprobe_atlas") / "data" / "atlas.sqlite"))


def chosen(path: str | None) -> Store:
    """The store at ``path``, or the installed one for ``None``.

    Raises:
        UsageError: no store is named, and none is installed.
        ReportError: it is no store, or damaged.
    """
    if path is not None:
        return Store(path)
    if not installed().is_file():
        raise UsageError("this mpsprobe-atlas has no data", "Name what 'mpsprobe atlas sweep' wrote: --store FILE.")
    return Store(installed(), unchanging=True)
