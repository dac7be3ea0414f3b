"""What this distribution offers: ``mpsprobe fix``. Thin: nothing heavy is imported here."""

from __future__ import annotations

from mpsprobe import hookimpl
from mpsprobe.declarations import CommandDeclaration


@hookimpl
def mpsprobe_commands() -> list[CommandDeclaration]:
    about = "The patch that makes a program run on MPS and still on CUDA and the CPU."
    return [CommandDeclaration("fix", "mpsprobe_fix.command:fix", about)]
