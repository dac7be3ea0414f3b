"""What this distribution offers: the command ``mpsprobe run``."""

from __future__ import annotations

from mpsprobe import hookimpl
from mpsprobe.declarations import CommandDeclaration


@hookimpl
def mpsprobe_commands() -> list[CommandDeclaration]:
    return [
        CommandDeclaration(
            name="run",
            target="mpsprobe_programs.commands.run:run",
            summary="What MPS does with each operator that a whole program calls, unchanged.",
        )
    ]
