"""``mpsprobe diff OLD NEW``."""

from __future__ import annotations

import sys

import click

from mpsprobe import exporting
from mpsprobe.cli.functions import compare
from mpsprobe.errors import UsageError
from mpsprobe.options import ANSWER, EXPORTER_OPTION, OUTPUT_OPTION, File, Named, Percent, rare
from mpsprobe.plugins.registry import get_registry
from mpsprobe.streams import because

REGRESSION = "regression"


@click.command()
@click.argument("old", type=File())
@click.argument("new", type=File())
@rare(ANSWER, "--fail-on", type=Named("finding", (REGRESSION,)), help="End with exit code 1 if there is one.")
@rare(ANSWER, "--threshold", type=Percent(), default="2", show_default=True, help="A smaller difference is none.")
@EXPORTER_OPTION
@OUTPUT_OPTION
def diff(
    old: str, new: str, fail_on: str | None, threshold: float, format_name: str | None, output: str | None
) -> None:
    """What became slower, larger or worse from the report OLD to the report NEW ('-' for standard input).

    Two profiles, two coverage reports or two matrices. A time differs only if a test says that it is more than noise,
    with a correction for the number of tests; profiles of several processes (profile --processes 5) tell most.

    \b
    mpsprobe diff main.json branch.json
    mpsprobe diff main.json branch.json --fail-on regression -o diff.md
    """
    if old == new == "-":
        raise UsageError("standard input holds one report only", "Name a file for the other one.")
    registry = get_registry()
    name = exporting.choose(registry, format_name, output, "comparison")
    report = compare(old, new, threshold=threshold)
    exporting.write(registry, name, report, output)
    if fail_on == REGRESSION and report.regressions:
        headline = exporting.shown(report, "table", "headline")  # None where mpsprobe-exporters is not installed
        click.echo(because([": ".join(filter(None, (f"regressions, {report.regressions}", headline)))]), err=True)
        sys.exit(1)
