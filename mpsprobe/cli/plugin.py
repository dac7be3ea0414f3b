"""What the core itself offers, declared as any plugin declares its own: commands, and models in a user's file."""

from __future__ import annotations

from mpsprobe import hookimpl
from mpsprobe.declarations import CommandDeclaration, WorkloadDeclaration


@hookimpl
def mpsprobe_commands() -> list[CommandDeclaration]:
    return [
        CommandDeclaration(
            name="diff",
            target="mpsprobe.cli.diff:diff",
            summary="What became slower or worse from one report to another, and whether by more than noise.",
        ),
        CommandDeclaration(
            name="doctor",
            target="mpsprobe.cli.doctor:doctor",
            summary="What is wrong with this machine's set-up for MPS, and what to do.",
        ),
        CommandDeclaration(
            name="export",
            target="mpsprobe.cli.export:export",
            summary="Turn a report into another format; needs neither torch nor the plugin that measured.",
        ),
        CommandDeclaration(
            name="import",
            target="mpsprobe.cli.import_trace:import_trace",
            summary="Make a report of a trace that torch.profiler wrote, on any device.",
        ),
        CommandDeclaration(
            name="plugins",
            target="mpsprobe.cli.plugins:plugins",
            summary="Which plugins are installed, what they contribute, and what is wrong with them.",
        ),
        CommandDeclaration(
            name="profile",
            target="mpsprobe.cli.profile:profile",
            summary="How long a step of a workload takes on MPS, CUDA or the CPU, and what it costs.",
        ),
        CommandDeclaration(
            name="workloads",
            target="mpsprobe.cli.workloads:workloads",
            summary="Which models can be named, and what each one is.",
        ),
    ]


@hookimpl
def mpsprobe_resolve_workload(name: str) -> WorkloadDeclaration | None:
    """``path/to/file.py:function``; any other name is some plugin's."""
    if ".py" not in name.lower():
        return None
    from mpsprobe.userfile import declare

    return declare(name)
