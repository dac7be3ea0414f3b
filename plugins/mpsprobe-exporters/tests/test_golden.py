"""Every format of every example report, compared byte for byte with what is committed.

``MPSPROBE_WRITE_GOLDEN=1`` writes the files anew; read the difference before committing it.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from example_reports import examples

from mpsprobe.declarations import ExporterDeclaration, resolve
from mpsprobe_exporters.plugin import mpsprobe_exporters
from mpsprobe_exporters.table import TableExporter

GOLDEN = Path(__file__).parent / "golden"
WRITE = os.environ.get("MPSPROBE_WRITE_GOLDEN") == "1"


@pytest.mark.parametrize("name", examples())
@pytest.mark.parametrize("declaration", mpsprobe_exporters(), ids=lambda one: one.name)
def test_golden(declaration: ExporterDeclaration, name: str) -> None:
    text = resolve(declaration.target)().render(examples()[name])
    compare(GOLDEN / f"{name}{declaration.extension}", text)


@pytest.mark.parametrize("name", ["mixed", "matrix", "advised"])
@pytest.mark.parametrize("width", [80, 160])
def test_golden_widths(name: str, width: int) -> None:
    compare(GOLDEN / f"{name}-{width}.txt", TableExporter(width).render(examples()[name]))


def test_golden_color() -> None:
    compare(GOLDEN / "failed-color.txt", TableExporter(80, color=True).render(examples()["failed"]))


def test_golden_ascii() -> None:
    text = TableExporter(80, encoding="ascii").render(examples()["failed"])
    assert text.isascii()
    compare(GOLDEN / "failed-ascii.txt", text)


def test_no_golden_file_is_left_over() -> None:
    widths = {f"{name}-{width}" for name in ("mixed", "matrix", "advised") for width in (80, 160)}
    names = set(examples()) | widths | {"failed-color", "failed-ascii"}
    assert {path.stem for path in GOLDEN.glob("*.*") if not path.name.startswith(".")} == names


def compare(path: Path, text: str) -> None:
    """``text`` is what the file holds; with ``MPSPROBE_WRITE_GOLDEN`` the file is made to hold it."""
    data = text.encode()
    if WRITE:
        path.write_bytes(data)
    assert path.read_bytes() == data
