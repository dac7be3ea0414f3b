"""``mpsprobe plugins check TARGET``: everything that is wrong with a plugin, before a user meets it."""

from __future__ import annotations

import json
import math
import shutil
import sys
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from mpsprobe.output import write_stdout
from mpsprobe.suggestions import printable

if TYPE_CHECKING:
    from mpsprobe_devkit.checking import Finding
    from mpsprobe_devkit.checking.examination import Examined

TITLES = {
    "package": "Package",
    "import": "Import",
    "hooks": "Hooks",
    "declarations": "Declarations",
    "targets": "Targets",
    "contracts": "Contracts",
    "tests": "Tests",
}
COLOURS = {"error": "red", "warning": "yellow"}
INDENT = 9  # "error" and "warning" with two spaces on each side
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
@click.option(
    "--contracts/--no-contracts",
    default=True,
    show_default=True,
    help="Whether to run the contracts of mpsprobe_devkit.testing on what it declares.",
)
@click.option(
    "--format",
    "format_name",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="Of the findings on standard output.",
)
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning"]),
    default="error",
    show_default=True,
    help="The lowest level of a finding for exit code 1.",
)
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

    Looks at the metadata, the import of the thin module (what it brings in, how long it takes, what it changes), the
    hooks, what they declare and whether others have those names, the targets, and the contracts.
    The plugin runs in processes of its own: it may hang or crash.

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
    if format_name == "json":
        write_stdout(json.dumps(_plain(examined), indent=2))
    else:
        colour = _coloured()
        text = "\n".join(_lines(examined, min(shutil.get_terminal_size().columns, WIDEST)))
        write_stdout(text if colour else click.unstyle(text))
    failing = {"error"} if fail_on == "error" else {"error", "warning"}
    if any(one.level in failing for one in examined.findings):
        click.get_current_context().exit(1)


def _coloured() -> bool:
    import os

    return sys.stdout is not None and sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def _counts(findings: list[Finding]) -> dict[str, int]:
    return {level: sum(one.level == level for one in findings) for level in ("error", "warning")}


def _plain(examined: Examined) -> dict[str, Any]:
    subject = examined.subject
    counts = _counts(examined.findings)
    return {
        "target": subject.shown,
        "kind": subject.kind,
        "distribution": subject.distribution,
        "version": subject.version,
        "entry_points": {one.name: one.target for one in subject.entry_points},
        "hooks": examined.hooks,
        "contributes": examined.contributes,
        "import_ms": None if examined.import_ms is None else round(examined.import_ms, 2),
        "tests": examined.tests,
        "findings": [one.as_dict() for one in examined.findings],
        "not_checked": examined.not_checked,
        "summary": {"errors": counts["error"], "warnings": counts["warning"]},
    }


def _lines(examined: Examined, width: int) -> Iterator[str]:
    subject = examined.subject
    named = f"{printable(subject.distribution)} {printable(subject.version)}".strip()
    yield click.style(named, bold=True) + f"  ({subject.kind} {printable(subject.shown)})"
    group = None
    for one in examined.findings:
        if one.group != group:
            group = one.group
            yield ""
            yield click.style(TITLES[group], bold=True)
        yield from _finding_lines(one, width)
    yield ""
    yield from _summary_lines(examined, width)
    yield _verdict(examined)


def _finding_lines(one: Finding, width: int) -> Iterator[str]:
    level = click.style(one.level.ljust(7), fg=COLOURS[one.level])
    yield f"  {level}  {click.style(one.code, bold=True)}" + (f"  {one.where}" if one.where else "")
    yield from _wrapped(one.message, width)
    if one.hint:
        yield from (click.style(line, dim=True) for line in _wrapped(f"→ {one.hint}", width, "  "))


def _wrapped(text: str, width: int, after: str = "") -> list[str]:
    margin = " " * (INDENT + 2)
    return textwrap.wrap(
        text,
        max(width, 40),
        initial_indent=margin,
        subsequent_indent=margin + after,
        break_on_hyphens=False,
    )


def _summary_lines(examined: Examined, width: int) -> Iterator[str]:
    rows = []
    for kind, names in examined.contributes.items():
        shown = [printable(name) for name in names[:MOST_NAMES]]
        more = [f"and {len(names) - MOST_NAMES} more"] if len(names) > MOST_NAMES else []
        rows.append((kind if len(names) == 1 else f"{kind}s", ", ".join([*shown, *more])))
    if others := [hook for hook in examined.hooks if hook in {"mpsprobe_resolve_workload", "mpsprobe_doctor"}]:
        rows.append(("hooks", ", ".join(others)))
    if examined.import_ms is not None:
        rows.append(("import", f"{examined.import_ms:,.1f} ms"))
    if examined.tests is not None:
        rows.append(("tests", printable(examined.tests)))
    rows += [("not checked", printable(one)) for one in examined.not_checked]
    column = max((len(name) for name, _ in rows), default=0) + 4
    for name, text in rows:
        indent = " " * column
        lines = textwrap.wrap(text, max(width - column, 20), break_on_hyphens=False) or [""]
        yield f"  {name.ljust(column - 2)}{lines[0]}"
        yield from (indent + line for line in lines[1:])
    if rows:
        yield ""


def _verdict(examined: Examined) -> str:
    counts = _counts(examined.findings)
    parts = [f"{count} {level}{'s' * (count != 1)}" for level, count in counts.items() if count]
    if not parts:
        return click.style("Sound: nothing is wrong with it.", fg="green")
    return click.style(", ".join(parts), fg=COLOURS["error" if counts["error"] else "warning"], bold=True)
