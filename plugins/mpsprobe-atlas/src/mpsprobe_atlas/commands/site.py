"""``mpsprobe atlas site``."""

from __future__ import annotations

from pathlib import Path

import click

from mpsprobe.errors import UsageError
from mpsprobe_atlas.commands.choosing import chosen


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

    with chosen(store) as opened:
        rows, about = list(judged(opened)), opened.about()
    if not any(one.runs for one in rows):
        raise UsageError("the atlas has no answer", "Sweep some workloads first: mpsprobe atlas sweep.")
    folder = Path(output)
    size = write_site(SiteData(rows, about), folder)
    click.echo(f"{folder / 'index.html'} ({size / 1e6:.1f} MB in all)")
