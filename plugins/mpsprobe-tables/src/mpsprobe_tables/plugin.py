"""What this distribution offers: the commands for maintainers, in the group ``mpsprobe kernels``."""

from __future__ import annotations

from mpsprobe import hookimpl
from mpsprobe.declarations import CommandDeclaration

COMMANDS = {
    "audit": "Compare the verdicts with what PyTorch's own tests expect on Macs.",
    "build": "Read a release's kernel table from its macOS wheels.",
    "learn": "Find out again what the lists of PyTorch's tests say that kernels refuse.",
    "markers": "Find the markers of every release in its stored messages.",
    "update": "Bring in the releases on the package index that have no table.",
}
"""Each is a function of its name in a module of its name, and what it does."""


@hookimpl
def mpsprobe_commands() -> list[CommandDeclaration]:
    return [
        CommandDeclaration(f"kernels {name}", f"mpsprobe_tables.commands.{name}:{name}", summary)
        for name, summary in COMMANDS.items()
    ]
