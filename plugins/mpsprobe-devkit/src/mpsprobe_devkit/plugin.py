"""What this distribution offers: the commands for authors, in the group ``mpsprobe plugins``."""

from __future__ import annotations

from mpsprobe import hookimpl
from mpsprobe.declarations import CommandDeclaration


@hookimpl
def mpsprobe_commands() -> list[CommandDeclaration]:
    return [
        CommandDeclaration(
            name="plugins check",
            target="mpsprobe_devkit.commands.check:check",
            summary="Everything that is wrong with a plugin, before a user meets it.",
        ),
        CommandDeclaration(
            name="plugins new",
            target="mpsprobe_devkit.commands.new:new",
            summary="Write a complete plugin to begin with.",
        ),
    ]
