"""``mpsprobe export REPORT --to NAME -o PATH``."""

from __future__ import annotations

import gc

import click

from mpsprobe import exporting
from mpsprobe.errors import UsageError, install_command
from mpsprobe.options import ANSWER, EVERYTHING_OPTION, JSON, QUIET_OPTION, File, often
from mpsprobe.plugins.registry import get_registry
from mpsprobe.streams import note


@click.command()
@click.argument("report", type=File())
@often(
    ANSWER,
    "--to",
    "--format",
    "to_name",
    metavar="NAME",
    shortcuts=JSON,
    help="An exporter [default: by the extension of -o].",
)
@often(ANSWER, "-o", "--output", type=File(), help="Where to write [default: standard output, as '-'].")
@EVERYTHING_OPTION
@QUIET_OPTION
def export(report: str, to_name: str | None, output: str | None, everything: bool) -> None:
    """Turn REPORT, which '--format json' or '-o' wrote ('-' for standard input), into another format."""
    registry = get_registry()
    to_file = output is not None and output != "-"
    name = to_name or (exporting.exporter_for(registry, output) if output is not None and to_file else None)
    if name is None:
        known = ", ".join(registry.exporters()) or f"none: {install_command('mpsprobe-exporters')}"
        raise UsageError("which format?", f"Say --to NAME, or -o PATH with an extension. There are: {known}.")
    exporting.check_target(registry, name, output if to_file else None)  # before the report is read

    from mpsprobe.schemas.report import read_report

    collected = gc.isenabled()
    gc.disable()  # a large report is a million objects and no circle: looking for some takes a third of the time
    try:
        written = exporting.write(registry, name, read_report(report), output, everything)
    finally:
        if collected:
            gc.enable()
    if written is not None and registry.exporter_declaration(name).folder:
        note(f"wrote {written}")  # its name may have got a number
