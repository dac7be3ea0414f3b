"""How large pages are and how soon a browser paints them: ``python benchmarks/page.py [REPORT.json …]``.

Without a report it measures those of the gallery. Each figure is a median over fresh browsers that open the file from
the disk: the time from the start of the navigation to the first paint, as the browser's own Performance API has it.
Needs ``playwright`` and a Chromium, which ``--chromium`` names. The exit code is 1 if a figure is above its limit.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Playwright, sync_playwright

from mpsprobe.schemas import read_report
from mpsprobe_exporters.html.exporter import HtmlExporter

GALLERY = Path(__file__).resolve().parents[1] / "docs" / "gallery" / "data"
LIMITS = {"profile": (2_000_000, 1_000)}
"""Bytes and milliseconds: a profile has its time line with it."""
OTHERS = (400_000, 500)
PAINT = """() => new Promise(done => new PerformanceObserver(list => {
  for (const one of list.getEntriesByName("first-contentful-paint")) done(one.startTime);
}).observe({type: "paint", buffered: true}))"""


def paint(play: Playwright, program: str, page: Path) -> float:
    """When a fresh browser paints the first of the content of ``page``, in ms."""
    browser = play.chromium.launch(executable_path=program, args=["--disable-gpu"])
    try:
        window = browser.new_page(viewport={"width": 1280, "height": 800})
        window.goto(page.as_uri())
        found: float = window.evaluate(PAINT)
        return found
    finally:
        browser.close()


def main() -> int:
    """Measure each report's page, and say what is above its limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reports", type=Path, nargs="*", default=sorted(GALLERY.glob("*.json")))
    parser.add_argument("--rounds", type=int, default=7, help="fresh browsers")
    parser.add_argument("--chromium", default=shutil.which("chromium") or shutil.which("google-chrome"))
    asked = parser.parse_args()
    if asked.chromium is None:
        parser.error("no Chromium on the path: name one with --chromium")
    missed = False
    sys.stdout.write(f"{'page':32} {'size':>8} {'limit':>8}   first paint, smallest to largest, limit\n")
    with tempfile.TemporaryDirectory(prefix="mpsprobe-page-") as folder, sync_playwright() as play:
        for path in asked.reports:
            report, page = read_report(path), Path(folder, f"{path.stem}.html")
            page.write_text(HtmlExporter().render(report), encoding="utf-8")
            most_bytes, most_ms = LIMITS.get(report.kind, OTHERS)
            size = page.stat().st_size
            # The first one loads the browser itself from the disk.
            times = [paint(play, asked.chromium, page) for _ in range(asked.rounds + 1)][1:]
            middle = statistics.median(times)
            missed = missed or size > most_bytes or middle > most_ms
            spread = f"{middle:.0f} ms ({min(times):.0f} to {max(times):.0f}), {most_ms} ms"
            sys.stdout.write(f"{path.stem:32} {size / 1e3:>5.0f} kB {most_bytes / 1e3:>5.0f} kB   {spread}\n")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
