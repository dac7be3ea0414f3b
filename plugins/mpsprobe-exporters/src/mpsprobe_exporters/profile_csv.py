"""A profile as comma-separated values: one row for each thing that was measured, so that a spreadsheet can draw it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from mpsprobe_exporters import profile_rows

if TYPE_CHECKING:
    from mpsprobe.schemas import ProfileReport


def rows(report: ProfileReport) -> Iterable[tuple[object, ...]]:
    """The header, then what ``profile_rows`` has; what a column does not say of a row is empty."""
    yield profile_rows.COLUMNS
    for row in profile_rows.rows(report):
        yield tuple(map(_shown, row))


def _shown(value: object) -> object:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value
