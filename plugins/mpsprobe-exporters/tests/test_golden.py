"""Every format of every example report, compared byte for byte with what is committed.

``MPSPROBE_WRITE_GOLDEN=1`` writes the files anew; read the difference before committing it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from example_reports import examples

from mpsprobe.declarations import ExporterDeclaration, resolve
from mpsprobe_exporters.html.exporter import HtmlExporter
from mpsprobe_exporters.plugin import mpsprobe_exporters
from mpsprobe_exporters.table import TableExporter

GOLDEN = Path(__file__).parent / "golden"
WRITE = os.environ.get("MPSPROBE_WRITE_GOLDEN") == "1"


# The others are looked at part by part, or read back, in tests of their own.
SHOWN = ("table", "json", "markdown", "csv", "junit", "prometheus")
PAIRS = [
    pytest.param(declaration, name, id=f"{declaration.name}-{name}")
    for declaration in mpsprobe_exporters()
    if declaration.name in SHOWN
    for name, report in examples().items()
    if report.kind in declaration.kinds
]
NARROW, WIDE = ("measured", "compared"), ("mixed", "matrix", "advised")
WIDTHS = {name: (*([40] if name in NARROW else []), 80, 120, *([160] if name in WIDE else [])) for name in examples()}
# What every page has; each has tests of its own.
SHARED = re.compile(r"<style>.*?</style>|<script>.*?</script>| content=\"default-src[^\"]*\"", re.DOTALL)
LINES = re.compile(r"(?=<(?:section|details|div|tr|li|p|h\d|dt|text|path|rect|button)\b)")


@pytest.mark.parametrize(("declaration", "name"), PAIRS)
def test_golden(declaration: ExporterDeclaration, name: str) -> None:
    text = resolve(declaration.target)().render(examples()[name])
    compare(GOLDEN / f"{name}{declaration.extension}", text)


@pytest.mark.parametrize(("name", "width"), [(name, width) for name, widths in WIDTHS.items() for width in widths])
def test_golden_widths(name: str, width: int) -> None:
    text = TableExporter(width, everything=False).render(examples()[name])
    assert max(map(len, text.split("\n"))) <= width
    compare(GOLDEN / f"{name}-{width}.txt", text)


@pytest.mark.parametrize("name", examples())
def test_golden_pages(name: str) -> None:
    """The page without its styles and scripts, an element on a line."""
    compare(GOLDEN / f"{name}.html", LINES.sub("\n", SHARED.sub("", HtmlExporter().render(examples()[name]))))


def test_golden_color() -> None:
    compare(GOLDEN / "failed-color.txt", TableExporter(80, color=True, everything=False).render(examples()["failed"]))


def test_golden_ascii() -> None:
    text = TableExporter(80, encoding="ascii").render(examples()["failed"])
    assert text.isascii()
    compare(GOLDEN / "failed-ascii.txt", text)


def test_golden_bars_in_ascii() -> None:
    text = TableExporter(80, encoding="ascii").render(examples()["measured"])
    assert text.isascii() and "?" not in text
    compare(GOLDEN / "measured-ascii.txt", text)


def test_no_golden_file_is_left_over() -> None:
    drawn = {f"{name}-{width}" for name, widths in WIDTHS.items() for width in widths}
    names = set(examples()) | drawn | {"failed-color", "failed-ascii", "measured-ascii"}
    assert {path.stem for path in GOLDEN.glob("*.*") if not path.name.startswith(".")} == names


def compare(path: Path, text: str) -> None:
    """``text`` is what the file holds; with ``MPSPROBE_WRITE_GOLDEN`` the file is made to hold it."""
    data = text.encode()
    if WRITE:
        path.write_bytes(data)
    assert path.read_bytes() == data
