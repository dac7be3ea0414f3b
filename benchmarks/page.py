"""How large pages are and how soon a browser paints them: ``python benchmarks/page.py [REPORT.json …] [--site]``.

Without a report it measures those of the gallery. Each figure is a median over fresh browsers that open the file from
the disk: the time from the start of the navigation to the first paint, as the browser's own Performance API has it.
``--site`` measures the atlas's site of 600 models, 40 releases and 2 phases instead, and what a keystroke in its search
takes: the processor time of the page's thread until the next frame.
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
SITE_BYTES, SITE_PAINT_MS, KEYSTROKE_MS = 12_000_000, 1_000, 50
ATLAS = Path(__file__).resolve().parents[1] / "plugins" / "mpsprobe-atlas" / "tests"
SEARCHED = "hf:qwen mo"
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


def site(play: Playwright, program: str, folder: Path, rounds: int) -> bool:
    """Measure a site of made-up models, and say whether it is within its limits."""
    sys.path.insert(0, str(ATLAS))
    from made_store import made_store

    from mpsprobe_atlas.reading import judged
    from mpsprobe_atlas.site.data import SiteData
    from mpsprobe_atlas.site.writing import write_site
    from mpsprobe_atlas.store import Store

    with Store(made_store(folder / "atlas.sqlite")) as store:
        write_site(SiteData(list(judged(store)), store.about()), folder / "site")
    size = sum(file.stat().st_size for file in (folder / "site").rglob("*") if file.is_file())
    page = folder / "site" / "index.html"
    painted = [paint(play, program, page) for _ in range(rounds + 1)][1:]
    pressed = [one for _ in range(rounds) for one in keystrokes(play, program, page)]
    for name, times in (("first paint", painted), ("a keystroke", pressed)):
        sys.stdout.write(f"{name}: {statistics.median(times):.0f} ms ({min(times):.0f} to {max(times):.0f})\n")
    sys.stdout.write(f"all files: {size / 1e6:.1f} MB\n")
    return bool(size <= SITE_BYTES and statistics.median(painted) <= SITE_PAINT_MS and max(pressed) <= KEYSTROKE_MS)


def keystrokes(play: Playwright, program: str, page: Path) -> list[float]:
    """What each key of a search costs the thread of the page, in ms of its processor time."""
    browser = play.chromium.launch(executable_path=program, args=["--disable-gpu"])
    try:
        window = browser.new_page(viewport={"width": 1280, "height": 800})
        session = window.context.new_cdp_session(window)
        session.send("Performance.enable", {"timeDomain": "threadTicks"})

        def spent() -> float:
            metrics = session.send("Performance.getMetrics")["metrics"]
            return float(next(one["value"] for one in metrics if one["name"] == "TaskDuration"))

        window.goto(page.as_uri())
        window.wait_for_selector("#search")
        found = []
        for key in SEARCHED:
            before = spent()
            window.locator("#search").press(key)
            window.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
            found.append((spent() - before) * 1000)
        return found
    finally:
        browser.close()


def main() -> int:
    """Measure each report's page, and say what is above its limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reports", type=Path, nargs="*", default=sorted(GALLERY.glob("*.json")))
    parser.add_argument("--site", action="store_true", help="the site of the atlas")
    parser.add_argument("--rounds", type=int, default=7, help="fresh browsers")
    parser.add_argument("--chromium", default=shutil.which("chromium") or shutil.which("google-chrome"))
    asked = parser.parse_args()
    if asked.chromium is None:
        parser.error("no Chromium on the path: name one with --chromium")
    missed = False
    if asked.site:
        with tempfile.TemporaryDirectory(prefix="mpsprobe-page-") as folder, sync_playwright() as play:
            return int(not site(play, asked.chromium, Path(folder), asked.rounds))
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
