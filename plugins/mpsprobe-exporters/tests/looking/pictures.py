"""Pictures of pages and of the terminal, for a person to look at: ``python pictures.py OUT [WORD] [REPORT.json …]``.

The pages are those that the tests of the browser visit, with WORD in their names, and one for each report that is
named. Of each view there is a picture in light and dark colours, 1,280 and 400 pixels wide; of the whole page one on
paper; of the terminal one at 80 and one at 120 columns. No test runs it.
"""

from __future__ import annotations

import io
import sys
import tempfile
from itertools import product
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(one) for one in (TESTS, TESTS / "browser", TESTS.parents[2])]

import browsing  # noqa: E402
from playwright.sync_api import Page  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.text import Text  # noqa: E402

from mpsprobe.schemas import read_report  # noqa: E402
from mpsprobe.schemas.report import Report  # noqa: E402
from mpsprobe_exporters.table import TableExporter  # noqa: E402

HIGHEST = 3000  # of a picture, in pixels


def taken(page: Page, path: Path) -> None:
    """A picture of the whole page, or of its upper part."""
    width, high = page.evaluate("[innerWidth, document.documentElement.scrollHeight]")
    page.screenshot(path=path, clip={"x": 0, "y": 0, "width": width, "height": min(HIGHEST, high)}, full_page=True)


def looked_at(page: Page, name: str, path: Path, report: Report, out: Path) -> None:
    """Every picture of one report."""
    for width, scheme in product((1280, 400), ("light", "dark")):
        page.emulate_media(media="screen", color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 800})
        page.goto(path.as_uri())
        for view in page.evaluate("[...document.querySelectorAll('section.view')].map(view => view.id)"):
            page.goto("about:blank")
            page.goto(f"{path.as_uri()}#{view}")
            taken(page, out / f"{name}-{view}-{width}-{scheme}.png")
    page.emulate_media(media="print", color_scheme="light")
    page.set_viewport_size({"width": 718, "height": 1000})
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    taken(page, out / f"{name}-paper.png")
    for columns in (80, 120) if not name.startswith("hostile") else ():
        console = Console(record=True, width=columns, file=io.StringIO(), force_terminal=True)
        text = TableExporter(columns, color=True, everything=False).render(report)
        console.print(Text.from_ansi(text), soft_wrap=True)
        page.set_content(console.export_svg(title=f"{name}, {columns} columns"))
        page.locator("svg").first.evaluate("(svg, wide) => { svg.style.width = wide + 'px'; }", columns * 10)
        page.locator("svg").first.screenshot(path=out / f"terminal-{name}-{columns}.png")


if __name__ == "__main__":
    folder, word, *paths = *sys.argv[1:3], *[""] * (3 - len(sys.argv)), *sys.argv[3:]
    found = {**browsing.reports(), "matrix-wide": browsing.wide_matrix()}
    found = {name: report for name, report in found.items() if word in name}
    found |= {Path(path).stem: read_report(Path(path)) for path in paths}
    with tempfile.TemporaryDirectory(prefix="mpsprobe-pictures-") as made, browsing.chromium() as browser:
        for name, path in browsing.written(Path(made), found).items():
            looked_at(browser.new_page(), name, path, found[name], Path(folder))
