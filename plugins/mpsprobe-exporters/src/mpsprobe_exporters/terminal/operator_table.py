"""The table of operators: as many columns as the screen has room for, the important ones first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from rich import box
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from mpsprobe_exporters.answer import FINDINGS, since
from mpsprobe_exporters.places import modules, places, sites
from mpsprobe_exporters.plain_text import one_line
from mpsprobe_exporters.terminal.folding import fold_name
from mpsprobe_exporters.terminal.verdict_styles import STYLES
from mpsprobe_exporters.units import byte_size, number

if TYPE_CHECKING:
    from rich.console import JustifyMethod

    from mpsprobe.schemas import OperatorFinding

# Readable on black and on white in the usual palettes (yellow is not, nor is dark blue), and never alone:
# the word is there too.
GAP = 2
LONGEST_NAME = 160
# The operator's name is folded to this before the places in the model lose their column.
FOLDED_NAME = 36
NARROWEST_NAME, NARROWEST_WHERE = 16, 32


@dataclass(frozen=True, slots=True)
class _Column:
    title: str
    cells: list[str]
    right: bool = False

    @property
    def width(self) -> int:
        return max(map(cell_len, [self.title, *self.cells]))


class _Layout(NamedTuple):
    """Which columns stand between ``verdict`` and ``where``; a width of 0 for no ``where`` at all."""

    columns: list[_Column]
    name_width: int
    where_width: int


def new_table(*titles: str, right: tuple[int, ...] = (), wrapped: tuple[int, ...] = ()) -> Table:
    """An empty table in the one style that all tables here have: a rule below the titles, no other lines.

    Args:
        titles: of the columns.
        right: numbers of the columns that are aligned to the right.
        wrapped: numbers of the columns that may be broken to fit; the others keep their width.
    """
    made = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, GAP - 1, 0, 0), header_style="bold")
    for index, title in enumerate(titles):
        justify: JustifyMethod = "right" if index in right else "left"
        made.add_column(title, justify=justify, overflow="fold", no_wrap=index not in wrapped)
    return made


def operator_table(found: list[OperatorFinding], release: str, width: int) -> tuple[Table, bool]:
    """The table for ``width`` columns, and whether the places in the model had room in it."""
    names = [one_line(one.operator, LONGEST_NAME) for one in found]
    layout = _layout(found, release, max(map(cell_len, ["operator", *names])), width)
    titles = ["operator", "verdict", *(column.title for column in layout.columns)]
    right = tuple(index for index, column in enumerate(layout.columns, start=2) if column.right)
    made = new_table(*titles, *(["where"] if layout.where_width else []), right=right)
    for row, one in enumerate(found):
        name = "\n".join(fold_name(names[row], layout.name_width))
        cells = [Text(name), Text(one.verdict, style=STYLES[one.verdict])]
        cells += [Text(column.cells[row]) for column in layout.columns]
        if layout.where_width:
            cells.append(Text(_where(one, layout.where_width)))
        made.add_row(*cells)
    return made, bool(layout.where_width)


def _layout(found: list[OperatorFinding], release: str, longest_name: int, width: int) -> _Layout:
    """The most telling columns that fit: places before phases and bytes, all of them before a folded name."""
    calls = _Column("calls", [number(one.calls) for one in found], right=True)
    dtypes = _Column("dtypes", [_dtypes(one) for one in found])
    phases = _Column("phases", [_phases(one) for one in found])
    moved = _Column("bytes", [_traffic(one) for one in found], right=True)
    native = _Column("native since", [one_line(since(one, release) or "-", 20) for one in found])
    extra = [moved] if any(moved.cells) else []
    if {phase for one in found for phase in one.phases} != {"forward"}:
        extra.insert(0, phases)

    fixed = max(len(text) for text in ["verdict", *(one.verdict for one in found)]) + GAP
    with_places = ([calls, dtypes, *extra, native], [calls, dtypes, *extra[-1:], native], [calls, dtypes, native])
    for columns in with_places:
        for name_width in (longest_name, min(longest_name, FOLDED_NAME)):
            room = width - name_width - fixed - sum(column.width + GAP for column in columns) - GAP
            if room >= NARROWEST_WHERE:
                return _Layout(columns, name_width, room)
    for columns in (*with_places, [calls, native], [calls]):
        room = width - fixed - sum(column.width + GAP for column in columns)
        if room >= longest_name or (len(columns) <= 2 and room >= min(FOLDED_NAME, longest_name)):
            return _Layout(columns, min(room, longest_name), 0)
    return _Layout([calls], max(NARROWEST_NAME, room), 0)


def _where(one: OperatorFinding, width: int) -> str:
    """All places of a finding, line by line; of a native operator the first, and how many there are beside it."""
    if one.verdict in FINDINGS:
        return "\n".join(line for place in places(one) for line in fold_name(place, width))
    first, *others = modules(one, None) or sites(one, None) or [""]
    more = f" +{len(others)}" if others else ""
    return _short(first, width - len(more)) + more


def _short(text: str, width: int) -> str:
    clean = one_line(text)
    return clean if len(clean) <= width else clean[: width - 1] + "…"


def _dtypes(one: OperatorFinding) -> str:
    """The two that occurred most, and how many more there are."""
    more = f" +{len(one.dtypes) - 2}" if len(one.dtypes) > 2 else ""
    return _short(", ".join(one.dtypes[:2]), 24) + more


def _phases(one: OperatorFinding) -> str:
    return _short(", ".join(f"{phase} {number(calls)}" for phase, calls in one.phases.items()), 40)


def _traffic(one: OperatorFinding) -> str:
    moved = one.input_bytes + one.output_bytes
    return byte_size(moved) if one.verdict in FINDINGS and moved else ""
