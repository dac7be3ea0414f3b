"""What this distribution offers: the command ``mpsprobe run``."""

from __future__ import annotations

from mpsprobe import hookimpl
from mpsprobe.declarations import CommandDeclaration


@hookimpl
def mpsprobe_commands() -> list[CommandDeclaration]:
    return []
