"""The table of operators: as many columns as the screen has room for, the important ones first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich import box
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from mpsprobe_exporters.answer import FINDINGS
from mpsprobe_exporters.places import places
from mpsprobe_exporters.plain_text import byte_size, number, one_line
from mpsprobe_exporters.terminal.folding import fold_name

if TYPE_CHECKING:
    from mpsprobe.schemas import OperatorFinding

# Readable on black and on white in the usual palettes (yellow is not, nor is dark blue), and never alone:
# the word is there too.
STYLES = {
    "missing": "bold red",
    "unsupported": "bold red",
    "fallback": "magenta",
    "unknown": "bold",
    "native": "green",
    "composite": "none",
}
GAP = 2
NARROWEST_NAME, LONGEST_NAME = 24, 160
NARROWEST_WHERE = 34


@dataclass(frozen=True, slots=True)
class _Column:
    title: str
    cells: list[str]
    right: bool = False

    @property
    def width(self) -> int:
        return max(map(cell_len, [self.title, *self.cells]))


def new_table(*titles: str, right: tuple[int, ...] = ()) -> Table:
    """An empty table in the one style that all tables here have: a rule below the titles, no other lines."""
    made = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, GAP - 1, 0, 0), header_style="bold")
    for index, title in enumerate(titles):
        made.add_column(title, justify="right" if index in right else "left", overflow="fold", no_wrap=True)
    return made


def operator_table(found: list[OperatorFinding], width: int) -> tuple[Table, bool]:
    """The table for ``width`` columns, and whether the places in the model had room in it."""
    verdict = _Column("verdict", [one.verdict for one in found])
    wanted = [_Column("calls", [number(one.calls) for one in found], right=True)]
    since = _Column("native since", [one_line(one.native_since or "-", 20) for one in found])
    optional = [_Column("dtypes", [_short(", ".join(one.dtypes), 24) for one in found])]
    if {phase for one in found for phase in one.phases} != {"forward"}:
        optional.append(_Column("phases", [_phases(one) for one in found]))
    if any(one.verdict in FINDINGS for one in found):
        optional.append(_Column("bytes", [_traffic(one) for one in found], right=True))

    names = [one_line(one.operator, LONGEST_NAME) for one in found]
    room = width - verdict.width - GAP - sum(column.width + GAP for column in [*wanted, since])
    name_width = max(NARROWEST_NAME, min(room, max(map(cell_len, ["operator", *names]))))
    room -= name_width
    for column in optional:
        if column.width + GAP <= room:
            wanted.append(column)
            room -= column.width + GAP
    wanted.append(since)
    with_places = room - GAP >= NARROWEST_WHERE

    titles = ["operator", "verdict", *(column.title for column in wanted), *(["where"] if with_places else [])]
    right = tuple(index for index, column in enumerate(wanted, start=2) if column.right)
    made = new_table(*titles, right=right)
    for row, one in enumerate(found):
        name = "\n".join(fold_name(names[row], name_width))
        cells = [Text(name), Text(one.verdict, style=STYLES[one.verdict])]
        cells += [Text(column.cells[row]) for column in wanted]
        if with_places:
            cells.append(Text(_where(one, room - GAP)))
        made.add_row(*cells)
    return made, with_places


def _where(one: OperatorFinding, width: int) -> str:
    """All places of a finding, line by line; of a native operator only what fits into one line."""
    found = places(one)
    if one.verdict in FINDINGS:
        return "\n".join(line for place in found for line in fold_name(place, width))
    return _short(found[0], width) if found else ""


def _short(text: str, width: int) -> str:
    clean = one_line(text)
    return clean if len(clean) <= width else clean[: width - 1] + "…"


def _phases(one: OperatorFinding) -> str:
    return _short(", ".join(f"{phase} {number(calls)}" for phase, calls in one.phases.items()), 40)


def _traffic(one: OperatorFinding) -> str:
    moved = one.input_bytes + one.output_bytes
    return byte_size(moved) if one.verdict in FINDINGS and moved else ""
