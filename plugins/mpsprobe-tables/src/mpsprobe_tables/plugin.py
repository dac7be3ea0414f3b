"""What this distribution offers: the commands for maintainers, in the group ``mpsprobe kernels``."""

from __future__ import annotations

from mpsprobe import hookimpl
from mpsprobe.declarations import CommandDeclaration


@hookimpl
def mpsprobe_commands() -> list[CommandDeclaration]:
    return [
        CommandDeclaration(
            name="kernels audit",
            target="mpsprobe_tables.commands.audit:audit",
            summary="Compare the verdicts with what PyTorch's own tests expect on Macs.",
        ),
        CommandDeclaration(
            name="kernels build",
            target="mpsprobe_tables.commands.build:build",
            summary="Read a release's kernel table from its macOS wheels.",
        ),
        CommandDeclaration(
            name="kernels learn",
            target="mpsprobe_tables.commands.learn:learn",
            summary="Find out again what the lists of PyTorch's tests say that kernels refuse.",
        ),
        CommandDeclaration(
            name="kernels markers",
            target="mpsprobe_tables.commands.markers:markers",
            summary="Find the markers of every release in its stored messages.",
        ),
        CommandDeclaration(
            name="kernels update",
            target="mpsprobe_tables.commands.update:update",
            summary="Bring in the releases on the package index that have no table.",
        ),
    ]
