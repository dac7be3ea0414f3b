"""``{report} NAME FORMAT``: a report of docs/gallery/data as an exporter writes it now: nothing can be old. So is
``{atlas} VIEW``, a view of the site of its atlas.
"""

from __future__ import annotations

import os
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from docutils import nodes

from _site.markdown import MarkdownDirective, block
from mpsprobe import exporting
from mpsprobe.output import write_atomically
from mpsprobe.plugins.registry import Registry
from mpsprobe.schemas import Report, read_report
from mpsprobe_atlas.reading import judged
from mpsprobe_atlas.site.data import SiteData
from mpsprobe_atlas.site.writing import write_site
from mpsprobe_atlas.store import Store
from mpsprobe_exporters.table import TableExporter

if TYPE_CHECKING:
    from sphinx.application import Sphinx

DATA = Path(__file__).resolve().parents[1] / "gallery" / "data"
PAGES = "gallery/pages"
SITE = "atlas"
MOST_LINES = 60
LANGUAGES = {"json": "json", "junit": "xml", "chrome": "json"}


def names() -> list[str]:
    """The reports that the gallery shows."""
    return sorted(path.stem for path in DATA.glob("*.json"))


def rendered(name: str, exporter: str) -> str:
    """A report as an exporter that writes text gives it; a table as on a terminal."""
    if exporter == "table":  # a file would have every operator
        return TableExporter(everything=False).render(_report(name))
    made = exporting.render(Registry(strict=True), exporter, _report(name))
    if not isinstance(made, str):
        raise TypeError(f"the exporter {exporter} writes bytes")
    return made


def _report(name: str) -> Report:
    return read_report(DATA / f"{name}.json")


class Shown(MarkdownDirective):
    """``NAME html [VIEW]``: the page in a frame. ``NAME FORMAT``: the text, cut off after ``MOST_LINES``."""

    def markdown(self, argument: str) -> str:
        """Markdown with the text, or with a frame."""
        name, exporter, *_ = argument.split()
        if exporter == "markdown":
            return f":::::{{container}} report\n{rendered(name, exporter)}\n:::::"
        lines = rendered(name, exporter).splitlines()
        more = [f"… and {len(lines) - MOST_LINES} lines more"] if len(lines) > MOST_LINES else []
        language = "text" if more else LANGUAGES.get(exporter, "text")  # a part of a document is none of its language
        return block(language, "\n".join(lines[:MOST_LINES] + more))

    def run(self) -> list[nodes.Node]:
        """The frame for HTML, else what Markdown makes."""
        name, exporter, *view = self.arguments[0].split()
        if exporter != "html":
            return super().run()
        page = os.path.relpath(f"{PAGES}/{name}.html", Path(self.env.docname).parent).replace(os.sep, "/")
        address = page + (f"#{view[0]}" if view else "")
        return framed(address, name)


class Atlas(Shown):
    """``VIEW``: the site of the gallery's atlas in a frame, at that view."""

    def run(self) -> list[nodes.Node]:
        """The frame."""
        place = os.path.relpath(f"{PAGES}/{SITE}/index.html", Path(self.env.docname).parent).replace(os.sep, "/")
        return framed(f"{place}#{self.arguments[0]}", "atlas")


def framed(address: str, title: str) -> list[nodes.Node]:
    """A page in a frame, and a link to it."""
    shown = escape(address)
    frame = f'<iframe class="report" src="{shown}" title="{title}" loading="lazy"></iframe>'
    return [nodes.raw("", f'{frame}<p><a href="{shown}">The page by itself</a></p>', format="html")]


def write_pages(app: Sphinx, error: Exception | None) -> None:
    """After the build: each report as the exporter ``html`` writes it, next to the pages of the site."""
    if error is not None or app.builder.format != "html":
        return
    for name in names():
        path = Path(app.outdir, PAGES, f"{name}.html")
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, rendered(name, "html"))
    with Store(DATA / "atlas") as store:
        write_site(SiteData(list(judged(store)), store.about()), Path(app.outdir, PAGES, SITE))
