"""Every format of every example report, compared byte for byte with what is committed.

``MPSPROBE_WRITE_GOLDEN=1`` writes the files anew; read the difference before committing it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from example_reports import examples

from mpsprobe.declarations import resolve
from mpsprobe.schemas.report import Report
from mpsprobe_exporters.html.exporter import HtmlExporter
from mpsprobe_exporters.plugin import mpsprobe_exporters
from mpsprobe_exporters.table import TableExporter

GOLDEN = Path(__file__).parent / "golden"
WRITE = os.environ.get("MPSPROBE_WRITE_GOLDEN") == "1"

# The others are looked at part by part, or read back, in tests of their own.
SHOWN = ("table", "markdown", "csv", "junit", "prometheus")
NARROW, WIDE = ("measured", "compared"), ("mixed", "matrix", "advised")
# What every page has; each has tests of its own.
SHARED = re.compile(r"<style>.*?</style>|<script>.*?</script>| content=\"default-src[^\"]*\"", re.DOTALL)
LINES = re.compile(r"(?=<(?:section|details|div|tr|li|p|h\d|dt|text|path|rect|button)\b)")


def drawn(name: str, report: Report) -> Iterator[tuple[str, str]]:
    """Each golden file of a report, and what it should hold."""
    for declaration in mpsprobe_exporters():
        if declaration.name in SHOWN and report.kind in declaration.kinds:
            yield f"{name}{declaration.extension}", resolve(declaration.target)().render(report)
    for width in (*([40] if name in NARROW else []), 80, 120, *([160] if name in WIDE else [])):
        text = TableExporter(width, everything=False).render(report)
        assert max(map(len, text.split("\n"))) <= width
        yield f"{name}-{width}.txt", text
    # The page without its styles and scripts, an element on a line.
    yield f"{name}.html", LINES.sub("\n", SHARED.sub("", HtmlExporter().render(report)))
    if name == "failed":
        yield "failed-color.txt", TableExporter(80, color=True, everything=False).render(report)
    if name in ("failed", "measured"):
        text = TableExporter(80, encoding="ascii").render(report)
        assert text.isascii() and (name == "failed" or "?" not in text)
        yield f"{name}-ascii.txt", text


def test_every_format_is_as_committed() -> None:
    expected = {path.name: path.read_bytes() for path in GOLDEN.glob("[!.]*")}
    found = {file: text.encode() for name, report in examples().items() for file, text in drawn(name, report)}
    if WRITE:
        for file in expected.keys() - found.keys():
            (GOLDEN / file).unlink()
        for file, data in found.items():
            (GOLDEN / file).write_bytes(data)
        return
    assert set(found) == set(expected), "a file is missing or left over"
    for file, data in found.items():
        assert data.decode() == expected[file].decode(), file
