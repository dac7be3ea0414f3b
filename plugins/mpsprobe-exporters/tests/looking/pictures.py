"""Pictures of every page and of the terminal, for a person to look at.

    python pictures.py OUT [REPORT.json …] [--only WORD]

The pages are those that the tests of the browser visit, and one for each report that is named. Of each view there is a
picture in light and dark colours, 1,280 and 400 pixels wide; of the whole page one on paper; of the terminal one
at 80 and one at 120 columns. No test runs it: what it makes is for the eye.
"""

from __future__ import annotations

import argparse
import io
import sys
import tempfile
from itertools import product
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(one) for one in (TESTS, TESTS / "browser", TESTS.parents[2])]

import browsing  # noqa: E402
from playwright.sync_api import Browser, Page  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.text import Text  # noqa: E402

from mpsprobe.schemas import read_report  # noqa: E402
from mpsprobe.schemas.report import Report  # noqa: E402
from mpsprobe_exporters.table import TableExporter  # noqa: E402

WIDTHS, COLUMNS, PAPER = (1280, 400), (80, 120), 718
HIGHEST = 3000  # of a picture, in pixels


def pages(browser: Browser, paths: dict[str, Path], out: Path) -> None:
    """A picture of each view of each page, and of the page on paper."""
    for width, scheme in product(WIDTHS, ("light", "dark")):
        page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
        for name, path in paths.items():
            page.goto(path.as_uri())
            for view in page.evaluate("[...document.querySelectorAll('section.view')].map(view => view.id)"):
                page.goto("about:blank")
                page.goto(f"{path.as_uri()}#{view}")
                taken(page, out / f"{name}-{view}-{width}-{scheme}.png")
        page.close()
    page = browser.new_page(viewport={"width": PAPER, "height": 1000})
    page.emulate_media(media="print")
    for name, path in paths.items():
        page.goto(path.as_uri())
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        taken(page, out / f"{name}-paper.png")
    page.close()


def taken(page: Page, path: Path) -> None:
    """A picture of the whole page, or of its upper part."""
    size = page.viewport_size
    assert size is not None
    high = min(HIGHEST, page.evaluate("document.documentElement.scrollHeight"))
    page.screenshot(path=path, clip={"x": 0, "y": 0, "width": size["width"], "height": high}, full_page=True)


def terminals(browser: Browser, reports: dict[str, Report], out: Path) -> None:
    """A picture of each report as a terminal shows it."""
    page = browser.new_page()
    for name, report in reports.items():
        for columns in COLUMNS:
            text = TableExporter(columns, color=True, everything=False).render(report)
            console = Console(record=True, width=columns, file=io.StringIO(), force_terminal=True)
            console.print(Text.from_ansi(text), soft_wrap=True)
            page.set_content(console.export_svg(title=f"{name}, {columns} columns"))
            drawn = page.locator("svg").first
            drawn.evaluate("(svg, wide) => { svg.style.width = wide + 'px'; }", columns * 10)
            drawn.screenshot(path=out / f"terminal-{name}-{columns}.png")
    page.close()


def main() -> int:
    """Make all of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("reports", type=Path, nargs="*")
    parser.add_argument("--only", default="", help="a word that the names of the pages must have")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    found = {**browsing.reports(), "matrix-wide": browsing.wide_matrix()}
    found |= {path.stem: read_report(path) for path in asked.reports}
    found = {name: report for name, report in found.items() if asked.only in name}
    with tempfile.TemporaryDirectory(prefix="mpsprobe-pictures-") as folder, browsing.chromium() as browser:
        pages(browser, browsing.written(Path(folder), found), asked.out)
        terminals(browser, {name: one for name, one in found.items() if not name.startswith("hostile")}, asked.out)
    sys.stdout.write(f"{len(list(asked.out.glob('*.png')))} pictures in {asked.out}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
