"""``mpsprobe plugins check TARGET``: everything that is wrong with a plugin, before a user meets it."""

from __future__ import annotations

import dataclasses
import itertools
import math
import os
import shutil
import sys
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from mpsprobe.options import FORMAT_OPTION
from mpsprobe.streams import because, write_json, write_stdout
from mpsprobe.suggestions import printable

if TYPE_CHECKING:
    from mpsprobe_devkit.checking.examination import Examined

LEVELS = click.Choice(["error", "warning"])
COLOURS = {"error": "red", "warning": "yellow"}
MARGIN = " " * 11  # "error" and "warning" with two spaces on each side
WIDEST = 120
MOST_NAMES = 8  # of one kind, in the summary


def _a_number(_context: click.Context, _parameter: click.Parameter, value: float) -> float:
    """NaN is in every range."""
    if math.isnan(value):
        raise click.BadParameter("'nan' is not a number of seconds")
    return value


@click.command()
@click.argument("target")
@click.option("--tests", "run_tests", is_flag=True, help="Also run the folder's own tests with pytest.")
@click.option("--contracts/--no-contracts", default=True, show_default=True, help="Whether to run the contracts.")
@FORMAT_OPTION
@click.option("--fail-on", type=LEVELS, default="error", show_default=True, help="The lowest level for exit code 1.")
@click.option(
    "--time-limit",
    type=click.FloatRange(0.1, 3600),
    callback=_a_number,
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="How long its import and each hook may take; a target may take six times that.",
)
def check(target: str, run_tests: bool, contracts: bool, format_name: str, fail_on: str, time_limit: float) -> None:
    """Say everything that is wrong with the plugin TARGET before a user meets it.

    TARGET is a folder with a pyproject.toml (it need not be installed), a .py file as --plugins-dir takes it, a
    wheel, or the name of an installed plugin or distribution. A folder of the current folder that holds a
    pyproject.toml comes before an installed plugin of the same name.

    Looks at the metadata and at what mpsprobe says when it loads the plugin: its import, its hooks, what they declare
    and whether others have those names, the targets. Then it runs the contracts.
    The plugin runs in a process of its own: it may hang or crash.

    Exit code 0 for a sound plugin, 1 for findings (--fail-on), 2 for wrong use.
    """
    from mpsprobe.plugins.registry import get_registry
    from mpsprobe.progress import make_progress
    from mpsprobe_devkit.checking.examination import examine

    with make_progress() as progress:
        progress.start(None, "reading the plugin")
        examined = examine(
            target,
            run_tests=run_tests,
            time_limit=time_limit,
            contracts=contracts,
            blocked=get_registry().blocked,
            folders=get_registry().folders,
            progress=progress.advance,
        )
    levels = [finding.level for finding in examined.findings]
    counts = {level: levels.count(level) for level in COLOURS}
    if format_name == "json":
        summary = {f"{level}s": count for level, count in counts.items()}
        write_json({**dataclasses.asdict(examined), "summary": summary})
    else:
        coloured = sys.stdout is not None and sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        text = "\n".join(_lines(examined, counts, min(shutil.get_terminal_size().columns, WIDEST)))
        write_stdout(text if coloured else click.unstyle(text))
    failing = [finding for finding in examined.findings if finding.level == "error" or fail_on == "warning"]
    if failing:
        click.echo(because([f"{finding.code}: {printable(finding.message)}" for finding in failing]), err=True)
        click.get_current_context().exit(1)


def _lines(examined: Examined, counts: dict[str, int], width: int) -> Iterator[str]:
    named = f"{printable(examined.distribution)} {printable(examined.version)}".strip()
    yield click.style(named, bold=True) + f"  ({examined.kind} {printable(examined.target)})"
    group = None
    for finding, following in itertools.zip_longest(examined.findings, examined.findings[1:]):
        if finding.group != group:
            group = finding.group
            yield from ("", click.style(group.capitalize(), bold=True))
        yield (
            f"  {click.style(finding.level.ljust(7), fg=COLOURS[finding.level])}  "
            + click.style(finding.code, bold=True)
            + (f"  {finding.where}" if finding.where else "")
        )
        again = following is not None and following.hint == finding.hint  # what they share stands below the last
        for text in (finding.message, *([] if again else [f"→ {finding.hint}"])):
            yield textwrap.fill(
                text, max(width, 40), initial_indent=MARGIN, subsequent_indent=MARGIN, break_on_hyphens=False
            )
    yield ""
    rows = [
        (kind + "s" * (len(names) > 1), ", ".join(map(printable, _shortened(names))))
        for kind, names in examined.contributes.items()
    ]
    rows += [("import", f"{examined.import_ms:,.1f} ms")] if examined.import_ms is not None else []
    rows += [("tests", printable(examined.tests))] if examined.tests is not None else []
    rows += [("not checked", printable(reason)) for reason in examined.not_checked]
    column = max((len(name) for name, _ in rows), default=0) + 4
    for name, text in rows:
        first = f"  {name}".ljust(column)
        yield (
            textwrap.fill(text, width, initial_indent=first, subsequent_indent=" " * column, break_on_hyphens=False)
            or first
        )
    yield from [""] if rows else []
    counted = {level: count for level, count in counts.items() if count}
    parts = ", ".join(f"{count} {level}{'s' * (count != 1)}" for level, count in counted.items())
    worst = COLOURS[next(iter(counted))] if counted else "green"
    yield click.style(parts or "Sound: nothing is wrong with it.", fg=worst, bold=bool(parts))


def _shortened(names: list[str]) -> list[str]:
    more = [f"and {len(names) - MOST_NAMES} more"] if len(names) > MOST_NAMES else []
    return [*names[:MOST_NAMES], *more]
