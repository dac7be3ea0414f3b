"""``mpsprobe fix PATH…``."""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING

import click

from mpsprobe.commands import Command
from mpsprobe.errors import UnknownName, UsageError
from mpsprobe.options import Names, Positive
from mpsprobe.streams import write_stdout
from mpsprobe.suggestions import printable

if TYPE_CHECKING:
    from mpsprobe_fix.fixing import Patch
    from mpsprobe_fix.rule import Rule


@click.command(cls=Command)
@click.argument("paths", nargs=-1, metavar="PATH…")
@click.option("--diff/--write", "as_diff", default=True, help="Print the edits as a diff [default], or write them.")
@click.option("--run", "program", metavar="COMMAND", help='Prove it: "train.py --epochs 1" before and after.')
@click.option("--timeout", type=Positive(), default=600, show_default=True, help="Seconds that one run may take.")
@click.option(
    "--torch", "release", default="installed", show_default=True, metavar="VERSION", help="To edit and judge for."
)
@click.option("--only", type=Names(), metavar="RULE,…", help="Only these rules.")
@click.option("--skip", type=Names(), metavar="RULE,…", help="All rules but these.")
@click.option("--force", is_flag=True, help="Write over changes that git does not have.")
@click.option("--rules", "listing", is_flag=True, help="List the rules, with the reason and the page of each.")
def fix(
    paths: tuple[str, ...],
    as_diff: bool,
    program: str | None,
    timeout: int,
    release: str,
    only: tuple[str, ...] | None,
    skip: tuple[str, ...] | None,
    force: bool,
    listing: bool,
) -> None:
    """Make the program at PATH run on MPS, and still on CUDA and the CPU: a diff, with format and comments kept.

    A comment '# mpsprobe: keep' leaves its line as it is. What a person has to decide becomes a comment
    '# mpsprobe: decide: …' and a line of the summary.

    \b
    mpsprobe fix src/ train.py
    mpsprobe fix src/ train.py --run "train.py --epochs 1" --write
    """
    from mpsprobe_fix.files import check_clean, gather
    from mpsprobe_fix.fixing import diff, fixed
    from mpsprobe_fix.rules import RULES

    if listing:
        write_stdout("".join(f"{rule.name}\n    {rule.reason}\n    {rule.page}\n" for rule in RULES.values()))
        return
    if not paths:
        raise UsageError("what should be fixed?", "Name files or folders: mpsprobe fix train.py src/")
    rules = _chosen(RULES, only, skip)
    gathered = gather(paths)
    patch = fixed(gathered, rules, release=release)
    held = True
    if program is not None:
        from mpsprobe_fix.proof import prove

        patch, reasons = prove(program, release, gathered, rules, patch, timeout)
        held = not reasons
        for reason in reasons:
            click.echo(f"not proved: {printable(reason)}", err=True)
    changed = [source for source in gathered.sources if source.name in patch.texts]
    if held and as_diff:
        write_stdout(diff(gathered.sources, patch).encode("utf-8"))
    elif held:
        if not force:
            check_clean(changed)
        written = 0
        try:
            for file in changed:
                file.write(patch.texts[file.name])
                written += 1
        finally:
            if written < len(changed):  # Ctrl-C, a full disk
                click.echo(f"{written} of {len(changed)} files were written, the others are as before", err=True)
    _summary(patch, len(changed), written=held and not as_diff, proved=program is not None and held)
    if not held:
        click.echo("no diff: the edits do not do what they should", err=True)
        sys.exit(1)


def _chosen(rules: dict[str, Rule], only: tuple[str, ...] | None, skip: tuple[str, ...] | None) -> list[Rule]:
    for name in (*(only or ()), *(skip or ())):
        if name not in rules:
            raise UnknownName("rule", name, rules, "List them: mpsprobe fix --rules")
    return [rule for rule in rules.values() if (not only or rule.name in only) and rule.name not in (skip or ())]


def _summary(patch: Patch, files: int, written: bool, proved: bool) -> None:
    for line in patch.complaints:
        path, _, why = line.partition(": ")  # a long path must not hide why
        click.echo(f"{printable(path)}: {printable(why)}", err=True)
    for decision in patch.decisions:
        click.echo(
            f"{printable(decision.file)}:{decision.line}: to decide: {decision.text} [{decision.rule}]", err=True
        )
    counts = Counter(change.rule for change in patch.changes)
    words = ", ".join(f"{name} {count}" for name, count in counts.items())
    total = sum(counts.values())
    if not total:
        click.echo("nothing to edit", err=True)
        return
    how = "written" if written else "not written: --write does it"
    click.echo(f"{total} edit{'s' * (total != 1)} in {files} file{'s' * (files != 1)} ({words}); {how}", err=True)
    if proved:
        click.echo("proved: same output before and after, and nothing left that a Mac refuses", err=True)
