"""How large the HTML of a profile is and how soon a browser paints it: ``python benchmarks/page.py REPORT.json``.

Needs Chromium and chromedriver, which are not installed with anything here; ``--chromium`` and ``--driver`` say where
they are. Each figure is a median over fresh browsers that open the file from the disk: the time from the start of the
navigation to the first paint, as the browser's own Performance API tells it.

With ``--hostile`` it also makes a page whose every name is markup that would run a script, opens each of its views,
and looks whether anything ran. The exit code is 0 if all is reached, 1 if something is missed, 2 if it could not be
measured.
"""

from __future__ import annotations

import argparse
import json
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mpsprobe.schemas import read_report
from mpsprobe_devkit.testing import sample_profile_report
from mpsprobe_exporters.html.exporter import HtmlExporter

MOST_BYTES, MOST_MS = 2_000_000, 1_000
QUIET = ("no-sandbox", "disable-gpu", "no-first-run", "disable-background-networking", "disable-component-update")
FREE = (
    "workload",
    "device",
    "operator",
    "name",
    "message",
    "caveats",
    "modules",
    "shapes",
    "module",
    "names",
    "reason",
)
MARKUP = '"><script>window.__ran = 1</script><img src=x onerror="window.__ran = 1"></script><!--'
MADE = "return document.images.length + document.querySelectorAll('script:not([type])').length"
PAINT = "return Object.fromEntries(performance.getEntriesByType('paint').map((one) => [one.name, one.startTime]))"


class Browser:
    """One browser behind chromedriver, spoken to as the W3C's WebDriver says."""

    def __init__(self, address: str, chromium: str, profile: str) -> None:
        arguments = ["--headless=new", f"--user-data-dir={profile}", *(f"--{one}" for one in QUIET)]
        options = {"binary": shutil.which(chromium) or chromium, "args": [*arguments, "--window-size=1600,1000"]}
        wanted = {"capabilities": {"alwaysMatch": {"browserName": "chrome", "goog:chromeOptions": options}}}
        self._address = address
        self._session = f"{address}/session/{self._ask('POST', f'{address}/session', wanted)['sessionId']}"

    def open(self, page: Path, view: str = "") -> None:
        """Load a file; returns when it has loaded."""
        self._ask("POST", f"{self._session}/url", {"url": page.as_uri() + (f"#{view}" if view else "")})

    def run(self, script: str) -> Any:
        """What a function with this body returns in the page."""
        return self._ask("POST", f"{self._session}/execute/sync", {"script": script, "args": []})

    def close(self) -> None:
        """End the browser."""
        self._ask("DELETE", self._session, None)

    def _ask(self, method: str, address: str, body: Any) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(address, data, {"Content-Type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.load(answer)["value"]


@contextmanager
def browsers(driver: str, chromium: str) -> Iterator[Any]:
    """A function that starts a fresh browser with an empty profile."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    process = subprocess.Popen([driver, f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(100):
            try:
                urllib.request.urlopen(f"{address}/status", timeout=5).close()
                break
            except OSError:
                time.sleep(0.1)
        with tempfile.TemporaryDirectory(prefix="mpsprobe-page-", ignore_cleanup_errors=True) as folder:
            yield lambda: Browser(address, chromium, tempfile.mkdtemp(dir=folder))
    finally:
        process.terminate()
        process.wait()


def paints(start: Any, page: Path, rounds: int) -> list[dict[str, float]]:
    """The paint entries of fresh browsers, in ms."""
    found = []
    for index in range(rounds + 1):  # the first one loads the browser itself from the disk
        browser = start()
        try:
            browser.open(page)
            entries: dict[str, float] = {}
            for _ in range(200):
                entries = browser.run(PAINT)
                if "first-contentful-paint" in entries:
                    break
                time.sleep(0.05)
            found += [entries] if index else []
        finally:
            browser.close()
    return found


def hostile(value: Any, key: str = "") -> Any:
    """``value`` of a report with markup for every name."""
    if isinstance(value, dict):
        return {inner: hostile(found, inner) for inner, found in value.items()}
    if isinstance(value, list):
        return [hostile(found, key) for found in value]
    return MARKUP if isinstance(value, str) and key in FREE else value


def ran(start: Any, page: Path) -> list[str]:
    """What ran or broke in the views of ``page``."""
    browser, problems = start(), []
    try:
        browser.open(page)
        views = browser.run("return [...document.querySelectorAll('section.view')].map((view) => view.id)")
        for view in views:
            browser.open(page, view)
            browser.run("document.querySelectorAll('canvas').forEach((one) => one.focus())")
            if browser.run("return window.__ran !== undefined"):
                problems.append(f"a script ran in {view}")
            if (
                browser.run("return document.images.length + document.querySelectorAll('script:not([type])').length")
                != 1
            ):
                problems.append(f"a name became markup in {view}")
            if browser.run("return document.documentElement.scrollWidth > innerWidth"):
                problems.append(f"{view} is wider than the window")
            if browser.run("return document.querySelectorAll('.view.current').length") != 1:
                problems.append(f"{view} is not shown: the page's own script did not run")
        return problems if len(views) > 5 else [*problems, "the page has too few views"]
    finally:
        browser.close()


def main() -> int:
    """Measure, and say what is reached."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report", type=Path, help="a profile as JSON")
    parser.add_argument("--rounds", type=int, default=7, help="fresh browsers")
    parser.add_argument("--chromium", default="chromium")
    parser.add_argument("--driver", default="chromedriver")
    parser.add_argument("--hostile", action="store_true", help="also look whether a name can run a script")
    asked = parser.parse_args()
    exporter = HtmlExporter()
    with tempfile.TemporaryDirectory(prefix="mpsprobe-page-") as folder:
        page, bad = Path(folder, "report.html"), Path(folder, "hostile.html")
        page.write_text(exporter.render(read_report(asked.report)), encoding="utf-8")
        report = sample_profile_report()
        bad.write_text(exporter.render(type(report).model_validate(hostile(report.model_dump()))), encoding="utf-8")
        problems: list[str] = []
        try:
            with browsers(asked.driver, asked.chromium) as start:
                found = paints(start, page, asked.rounds)
                problems = ran(start, bad) if asked.hostile else []
        except OSError as error:
            answer = error.read().decode("utf-8", "replace") if isinstance(error, urllib.error.HTTPError) else ""
            sys.stderr.write(f"the browser could not be asked: {error} {answer[:500]}\n")
            return 2
        size = page.stat().st_size
    missed = size > MOST_BYTES or bool(problems)
    sys.stdout.write(f"size          {size / 1e6:.2f} MB, reach 2 MB\n")
    for name in ("first-paint", "first-contentful-paint"):
        times = [entries[name] for entries in found if name in entries]
        if len(times) < len(found):
            sys.stderr.write(f"{name} was not measured by every browser\n")
            return 2
        middle = statistics.median(times)
        missed = missed or middle > MOST_MS
        sys.stdout.write(f"{name:24} {middle:.0f} ms ({min(times):.0f} to {max(times):.0f}), reach {MOST_MS} ms\n")
    sys.stdout.writelines(f"{problem}\n" for problem in problems)
    if asked.hostile and not problems:
        sys.stdout.write("hostile names: nothing ran, nothing left its box\n")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
