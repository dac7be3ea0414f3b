"""A Chromium to look at pages with, and a page of every kind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from example_reports import (
    examples,
    finding,
    hostile_comparisons,
    hostile_coverage,
    hostile_matrix,
    hostile_profile,
    of_releases,
    summary,
)

from mpsprobe.schemas import MatrixReport
from mpsprobe.schemas.report import Report
from mpsprobe_exporters.html.exporter import HtmlExporter
from tests import left_out

if TYPE_CHECKING:
    from playwright.sync_api import Browser

WIDE = '"><script>window.ran = 1</script><img src=x onerror="window.ran = 1">\u202e' + "unbroken" * 40
"""Markup that would run, a change of direction, and more than any line holds without a place to break."""


@contextmanager
def chromium() -> Iterator[Browser]:
    """One browser without a window."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        # A sandbox needs rights that root of a container does not have; the pages are ours.
        browser = play.chromium.launch(
            executable_path=left_out.browser(), args=["--disable-gpu"], chromium_sandbox=False
        )
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
    return of_releases(cells, operators=counts)


def reports() -> dict[str, Report]:
    """A report for each kind of page, and for each with names that want to break out of it."""
    kinds = "mixed sample advised program generate matrix measured compared compared-coverage"
    profile, matrix = hostile_comparisons(WIDE)
    return {
        **{name: report for name, report in examples().items() if name in kinds.split()},
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
