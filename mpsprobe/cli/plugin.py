"""What the core itself offers, declared as any plugin declares its own: commands, and models in a user's file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpsprobe.declarations import CommandDeclaration, WorkloadDeclaration
from mpsprobe.hookspecs import hookimpl

if TYPE_CHECKING:
    from mpsprobe.protocols import Workload

COMMANDS = {
    "completion:completion": "Print what lets a shell complete commands, options and names.",
    "diff:diff": "What became slower or worse from one report to another, and whether by more than noise.",
    "doctor:doctor": "What is wrong with this machine's set-up for MPS, and what to do.",
    "export:export": "Turn a report into another format; needs neither torch nor the plugin that measured.",
    "plugins:plugins": "Which plugins are installed, what they contribute, and what is wrong with them.",
    "profile:profile": "How long a step of a workload takes on MPS, CUDA or the CPU, and what it costs.",
    "workloads:workloads": "Which models can be named, and what each one is.",
}
"""Where each command is in ``mpsprobe.cli``, and its line of ``--help``."""


@hookimpl
def mpsprobe_commands() -> list[CommandDeclaration]:
    return [
        CommandDeclaration(target.partition(":")[0], f"mpsprobe.cli.{target}", summary)
        for target, summary in COMMANDS.items()
    ]


@hookimpl
def mpsprobe_resolve_workload(name: str) -> WorkloadDeclaration | None:
    """``path/to/file.py:function``; any other name is some plugin's."""
    if ".py" not in name.lower():
        return None
    from mpsprobe.userfile import declare

    return declare(name)


@hookimpl
def mpsprobe_workload_of(model: object, inputs: object) -> Workload | None:
    """A function without inputs: it makes a model and its inputs, as ``path/to/file.py:function`` does."""
    from types import FunctionType

    if inputs is not None or not isinstance(model, FunctionType):
        return None
    from mpsprobe.userfile import MadeWorkload

    return MadeWorkload(model)
