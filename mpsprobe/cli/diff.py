"""``mpsprobe diff OLD NEW``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from mpsprobe import exporting
from mpsprobe.errors import ReportError, UsageError
from mpsprobe.options import Named, Percent
from mpsprobe.plugins.registry import get_registry
from mpsprobe.suggestions import printable

if TYPE_CHECKING:
    from mpsprobe.schemas.comparison import ComparisonReport
    from mpsprobe.schemas.report import Report

REGRESSION = "regression"


@click.command()
@click.argument("old")
@click.argument("new")
@click.option("--fail-on", type=Named("finding", (REGRESSION,)), help="End with exit code 1 if there is one.")
@click.option("--threshold", type=Percent(), default="2", show_default=True, help="A smaller difference is none.")
@click.option("--format", "format_name", metavar="NAME", help="An exporter [default: table, or by -o's extension].")
@click.option("-o", "--output", metavar="FILE", help="Write the comparison to FILE.")
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
    from mpsprobe.schemas.report import read_report

    registry = get_registry()
    name = exporting.choose(registry, format_name, output, "comparison")
    report = compare(read_report(old), read_report(new), (old, new), threshold)
    exporting.write(registry, name, report, output)
    if fail_on == REGRESSION and report.regressions:
        sys.exit(1)


def compare(old: Report, new: Report, sources: tuple[str, str], threshold: float) -> ComparisonReport:
    """The comparison of two reports of one kind.

    Raises:
        ReportError: they are of kinds that differ or that cannot be compared, or have nothing in common.
    """
    from mpsprobe.engine.comparing import compare_profiles
    from mpsprobe.engine.comparing_coverage import compare_coverage, compare_matrices
    from mpsprobe.schemas.coverage import CoverageReport, MatrixReport
    from mpsprobe.schemas.profile import ProfileReport

    if isinstance(old, ProfileReport) and isinstance(new, ProfileReport):
        return compare_profiles(old, new, sources, threshold)
    if isinstance(old, CoverageReport) and isinstance(new, CoverageReport):
        return compare_coverage(old, new, sources)
    if isinstance(old, MatrixReport) and isinstance(new, MatrixReport):
        return compare_matrices(old, new, sources)
    first, second, one, other = map(printable, (old.kind, new.kind, *sources))
    if first == second:
        raise ReportError(f"reports of the kind '{first}' cannot be compared", "Upgrade mpsprobe and its plugins.")
    problem = f"the reports are of different kinds: {one} is a '{first}' and {other} is a '{second}'"
    raise ReportError(problem, "Compare two profiles, two coverage reports or two matrices (coverage --torch all).")
