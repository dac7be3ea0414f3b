"""``mpsprobe atlas``: the group, and what reads a store: ``rank``, ``site``, ``export``."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import click

from mpsprobe import exporting
from mpsprobe.commands import OpenGroup
from mpsprobe.errors import UnknownName, UsageError
from mpsprobe.options import EVERYTHING_OPTION, EXPORTER_OPTION, OUTPUT_OPTION, Named, Names
from mpsprobe.output import check_folder, check_writable, deliver
from mpsprobe.plugins.registry import get_registry
from mpsprobe.progress import make_progress
from mpsprobe_atlas.store import Store

LATEST, PARQUET = "latest", "parquet"
SWEEP_FIRST = "Sweep some workloads first: mpsprobe atlas sweep."
STORE_OPTION = click.option(
    "--store", metavar="FILE", help="What 'atlas sweep' wrote [default: the data that mpsprobe-atlas comes with]."
)


def _opened(path: str | None) -> Store:
    """The store at ``path``, or the data of this distribution for ``None``."""
    if path is not None:
        return Store(path)
    installed = Path(str(resources.files("mpsprobe_atlas") / "data" / "atlas"))
    if not installed.is_dir():
        raise UsageError("this mpsprobe-atlas has no data", "Name what 'mpsprobe atlas sweep' wrote: --store FILE.")
    return Store(installed)


@click.group(cls=OpenGroup)
def atlas() -> None:
    """Many models on every torch release: what MPS does with each, swept once and asked often.

    'atlas sweep' judges workloads by their names and keeps the answers in a file.
    """


@click.command()
@STORE_OPTION
@click.option("--to", "target", type=Named("format", (PARQUET, "json")), required=True, help="parquet or json.")
@click.option(
    "-o", "--output", metavar="PATH", help="A folder for Parquet, a file for JSON [default: standard output]."
)
@click.option("--native", is_flag=True, help="Also the operators that run on the GPU: many more rows.")
def export(store: str | None, target: str, output: str | None, native: bool) -> None:
    """The atlas as rows, for pandas, DuckDB and their like.

    'runs' has a row for each workload, phase, dtype and release: whether it runs, memory, known wrong results.
    'operators' has one for each of their operators that is not native, with shapes, dtypes and calls.

    \b
    mpsprobe atlas export --to parquet -o atlas
    mpsprobe atlas export --to json --store atlas.sqlite -o atlas.json
    """
    from mpsprobe_atlas.exports import json_document, write_parquet

    path = None if output == "-" else output
    if target == PARQUET and path is None:
        raise UsageError("Parquet needs a folder", "Name it: -o FOLDER.")
    with _opened(store) as opened:
        if target == PARQUET and path is not None:
            check_folder(path)
            for made in write_parquet(opened, Path(path), native=native):
                click.echo(made, err=True)
            return
        if path is not None:
            check_writable(path)
        deliver(json_document(opened, native=native), path)


@click.command()
@STORE_OPTION
@click.option("--torch", "release", default=LATEST, show_default=True, metavar="VERSION", help="The release to rank.")
@click.option("--phase", "phases", type=Names(), metavar="PHASE,…", help="Only these phases count [default: all].")
@EXPORTER_OPTION
@OUTPUT_OPTION
@EVERYTHING_OPTION
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
    run. Rewrites are what 'mpsprobe fix' puts in the place of an operator, where the code calls it.

    \b
    mpsprobe atlas rank
    mpsprobe atlas rank --torch 2.6.0 --phase training
    mpsprobe atlas rank --store atlas.sqlite -o ranking.html
    """
    registry = get_registry()
    name = exporting.choose(registry, format_name, output, "ranking")
    from mpsprobe.schemas import Environment, RankingReport
    from mpsprobe_atlas.answers import unpack
    from mpsprobe_atlas.ranking import gained, gather, ranked, rewritten
    from mpsprobe_atlas.reading import heads

    with _opened(store) as opened:
        rows = list(heads(opened))
        if not rows:
            raise UsageError("the atlas has no answer", SWEEP_FIRST)
        first = opened.row(*rows[0].row.key)
    assert first is not None and first.answer is not None
    answers = unpack(first.answer)
    environment = answers.report(answers.releases[-1])["environment"]
    known = sorted({row.row.phase for row in rows})
    for phase in phases or ():
        if phase not in known:
            raise UnknownName("phase", phase, known, f"The atlas has: {', '.join(known)}.")
    releases = max((list(row.runs) for row in rows), key=len)
    gathered = gather(rows, releases, phases or ())
    asked = _release(release, releases)
    made = max(row.row.made for row in rows)
    rewrites, freed = rewritten(gathered, asked, registry.rewrites())
    report = RankingReport(
        torch=asked,
        phases=list(phases or known),
        architectures=len(gathered[asked].known),
        made=made,
        environment=Environment.model_validate(environment),
        operators=ranked(gathered, asked),
        fallbacks=ranked(gathered, asked, ("fallback",)),
        releases=gained(gathered),
        rewrites=rewrites,
        rewritten=freed,
    )
    exporting.write(registry, name, report, output, everything)


def _release(text: str, known: list[str]) -> str:
    """The release that ``text`` means: ``2.6.0``, ``2.6`` (its newest patch), ``latest``."""
    from mpsprobe_coverage.knowledge.kernels.releases import pick_release

    release = known[-1] if text.strip().lower() == LATEST else pick_release(text, known)
    if release is None:
        raise UnknownName("torch release", text, known, f"The atlas has: {', '.join(known)}.")
    return release


@click.command()
@click.argument("store", required=False, metavar="[STORE]")
@click.option(
    "-o", "--output", required=True, metavar="FOLDER", help="A new or an empty folder, or one with such a site."
)
def site(store: str | None, output: str) -> None:
    """The atlas as pages for a browser: models, a heat map, which kernel next, a page for each operator.

    STORE is what 'atlas sweep' wrote; without it, the data that mpsprobe-atlas comes with. The pages need no server and
    no network: open index.html, or put the folder on any web server.

    \b
    mpsprobe atlas site atlas.sqlite -o site
    """
    from mpsprobe_atlas.reading import judged
    from mpsprobe_atlas.site.data import SiteData
    from mpsprobe_atlas.site.writing import write_site

    folder, rows = Path(output), []
    with _opened(store) as opened, make_progress() as progress:
        progress.start(len(opened.states()), "reading the answers")
        for row in judged(opened):
            rows.append(row)
            progress.advance()
        if not any(one.runs for one in rows):
            raise UsageError("the atlas has no answer", SWEEP_FIRST)
        progress.start(None, "writing the pages")
        size = write_site(SiteData(rows, opened.about()), folder)
    click.echo(f"{folder / 'index.html'} ({size / 1e6:.1f} MB in all)")
