"""``mpsprobe atlas rank``."""

from __future__ import annotations

import click

from mpsprobe import exporting
from mpsprobe.errors import UnknownName, UsageError
from mpsprobe.options import Names
from mpsprobe.plugins.registry import get_registry
from mpsprobe_atlas.commands.choosing import STORE_OPTION, chosen

LATEST = "latest"


@click.command()
@STORE_OPTION
@click.option("--torch", "release", default=LATEST, show_default=True, metavar="VERSION", help="The release to rank.")
@click.option("--phase", "phases", type=Names(), metavar="PHASE,…", help="Only these phases count [default: all].")
@click.option("--format", "format_name", metavar="NAME", help="An exporter [default: table, or by -o's extension].")
@click.option("-o", "--output", metavar="FILE", help="Write the report to FILE.")
@click.option("--all", "everything", is_flag=True, help="On a terminal, show every operator.")
def rank(
    store: str | None,
    release: str,
    phases: tuple[str, ...] | None,
    format_name: str | None,
    output: str | None,
    everything: bool,
) -> None:
    """Missing operators, by the number of architectures that they block, and what each release gained.

    Models of one class are one architecture, whatever their head and size. It is blocked where an operator of any of
    them is missing or refused in any phase. "alone" are those that nothing else blocks: with that kernel they would
    run.

    \b
    mpsprobe atlas rank
    mpsprobe atlas rank --torch 2.6.0 --phase training
    mpsprobe atlas rank --store atlas.sqlite -o ranking.html
    """
    registry = get_registry()
    name = exporting.choose(registry, format_name, output, "ranking")
    from mpsprobe.schemas import Environment, RankingReport
    from mpsprobe_atlas.answers import unpack
    from mpsprobe_atlas.ranking import gained, gather, ranked
    from mpsprobe_atlas.reading import heads

    with chosen(store) as opened:
        rows = list(heads(opened))
        if not rows:
            raise UsageError("the atlas has no answer", "Sweep some workloads first: mpsprobe atlas sweep.")
        first = opened.row(*rows[0].row.key)
    assert first is not None and first.answer is not None
    answers = unpack(first.answer)
    environment = answers.report(answers.releases[-1])["environment"]
    known = sorted({one.row.phase for one in rows})
    for phase in phases or ():
        if phase not in known:
            raise UnknownName("phase", phase, known, f"The atlas has: {', '.join(known)}.")
    releases = max((list(one.runs) for one in rows), key=len)
    found = gather(rows, releases, phases or ())
    asked = _release(release, releases)
    made = max(one.row.made for one in rows)
    report = RankingReport(
        torch=asked,
        phases=list(phases or known),
        architectures=len(found[asked].known),
        made=made,
        environment=Environment.model_validate(environment),
        operators=ranked(found, asked),
        fallbacks=ranked(found, asked, ("fallback",)),
        releases=gained(found),
    )
    exporting.write(registry, name, report, output, everything)


def _release(text: str, known: list[str]) -> str:
    """The release that ``text`` means: ``2.6.0``, ``2.6`` (its newest patch), ``latest``.

    Raises:
        UnknownName: the atlas does not have it.
    """
    if text.strip().lower() == LATEST:
        return known[-1]
    from mpsprobe_coverage.knowledge.kernels.releases import pick_release

    release = pick_release(text, known)
    if release is None:
        raise UnknownName("torch release", text, known, f"The atlas has: {', '.join(known)}.")
    return release
