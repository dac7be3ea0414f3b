"""A Chromium to look at pages with, and a page of every kind."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from example_reports import BERT, ENVIRONMENT, SIZES, examples, finding, summary
from hostile import hostile_comparisons, hostile_coverage, hostile_matrix, hostile_profile

from mpsprobe.schemas import MatrixReport, read_report
from mpsprobe.schemas.report import Report
from mpsprobe_exporters.html.exporter import HtmlExporter

if TYPE_CHECKING:
    from playwright.sync_api import Browser

GALLERY = Path(__file__).resolve().parents[4] / "docs" / "gallery" / "data"
NAMES = ("chromium", "google-chrome", "chromium-browser", "chrome")
"""What the program is called: by Debian, by Google on Linux, by Ubuntu, by Google on Windows."""
WIDE = '"><script>window.ran = 1</script><img src=x onerror="window.ran = 1">\u202e' + "unbroken" * 40
"""Markup that would run, a change of direction, and more than any line holds without a place to break."""


def program() -> str | None:
    """The browser on the path, if there is one."""
    return next(filter(None, map(shutil.which, NAMES)), None)


@contextmanager
def chromium() -> Iterator[Browser]:
    """One browser without a window."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        # A sandbox needs rights that root of a container does not have; the pages are ours.
        browser = play.chromium.launch(executable_path=program(), args=["--disable-gpu"], chromium_sandbox=False)
        try:
            yield browser
        finally:
            browser.close()


def wide_matrix(releases: int = 40, operators: int = 100) -> MatrixReport:
    """As many releases as there are, with neighbours that all differ, and operators that end at one after the other."""
    versions = [f"{1 + (index > 4)}.{index // 3}.{index % 3}" for index in range(releases)]
    names = [f"aten::_some_operator_with_a_long_name_{index}.Tensor_out" for index in range(operators)]
    verdicts = ("missing", "fallback", "unsupported")
    cells: list[dict[str, Any]] = []
    for at, version in enumerate(versions):
        left = {name: verdicts[i % 3] for i, name in enumerate(names) if i * releases > at * operators}
        counts = [finding(name, left.get(name, "native")) for name in names]
        cells.append({"target": {"torch": version}, "summary": summary(counts), "findings": left})
    return MatrixReport.model_validate(
        {
            "method": "predicted",
            "workload": {**BERT, **SIZES},
            "environment": ENVIRONMENT,
            "native_since": None,
            "releases": cells,
            "operators": [finding(name, left.get(name, "native")) for name in names],
        }
    )


def reports() -> dict[str, Report]:
    """A report for each kind of page, and for each with names that want to break out of it."""
    known = examples()
    profile, matrix = hostile_comparisons(WIDE)
    return {
        "coverage": known["mixed"],
        "coverage-explained": known["explained"],
        "coverage-advised": known["advised"],
        "program": known["program"],
        "generate": read_report(GALLERY / "generate.json"),
        "matrix": known["matrix"],
        "profile": known["measured"],
        "diff-profile": known["compared"],
        "diff-coverage": known["compared-coverage"],
        "hostile-coverage": hostile_coverage(WIDE),
        "hostile-matrix": hostile_matrix(WIDE),
        "hostile-profile": hostile_profile(WIDE),
        "hostile-diff-profile": profile,
        "hostile-diff-matrix": matrix,
    }


def written(folder: Path, found: dict[str, Report]) -> dict[str, Path]:
    """Each report as a page in ``folder``."""
    pages = {name: folder / f"{name}.html" for name in found}
    for name, path in pages.items():
        path.write_text(HtmlExporter().render(found[name]), encoding="utf-8")
    return pages
