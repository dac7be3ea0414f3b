"""A document on a terminal, in lines."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, cast

from mpsprobe_exporters import document as model
from mpsprobe_exporters.plain_text import JOINTS, NO_BREAK, kept, one_line
from mpsprobe_exporters.terminal.screen import SUBSTITUTES, WIDEST, Screen, is_terminal, on_terminal

if TYPE_CHECKING:
    from mpsprobe_exporters.document import Bar, Block, Column, Document, Place, Section

Line = list[tuple[str, str]]
"""Text and style, from the left; the style is words of ``CODES``, an address after ``LINK``, or empty."""
LINK = "link "  # before the address, which is the style of what leads there
CODES = {"bold": "1", "red": "31", "green": "32", "magenta": "35"}
GAP = 2
NARROWEST, LONGEST_NAME, WIDEST_TEXT = 16, 36, 32  # what a name or a text gets before another column goes
MOST_PLACES, MOST_IN_TABLE, MOST_BARS = 5, 2, 40
NARROWEST_BAR, WIDEST_BAR = 8, 40
EIGHTHS, FULL = " ▏▎▍▌▋▊▉", "█"
BLANK: Line = []
# Of verdicts and differences.
STYLES = {
    **dict.fromkeys(model.BAD, "bold red"),
    **dict.fromkeys(model.GOOD, "green"),
    "fallback": "magenta",
    "caution": "magenta",
    "unknown": "bold",
    "composite": "",
}
TONES = {"bad": "bold red", "mixed": "", "good": "green", "plain": ""}


def lines_of(document: Document, width: int, *, everything: bool) -> Iterator[Line]:
    """What to print on ``width`` columns; ``everything`` is ``--all``: what nobody needs to act is shown too."""
    if document.brief and not everything:
        for line in document.brief:
            yield from _lines(line, width)
        return
    if document.headline:
        yield from _lines(document.headline, width, "bold")
    for line in document.alerts:
        yield from _lines(line, width, TONES["bad"])
    lead = document.at("lead")
    yield from _sections(document, lead, width)
    if lead and (document.lines or document.notes):
        yield BLANK
    for line in document.lines:
        yield from _lines(line, width)
    for note in document.notes:
        yield from _indented(_hanging(f"note: {note}", width - GAP), GAP)
    yield from _sections(document, document.at("first", "all") if everything else document.at("first"), width)


def _sections(document: Document, sections: Iterable[Section], width: int) -> Iterator[Line]:
    for section in sections:
        yield BLANK
        if section.title:
            yield from _hanging(document.heading(section), width, "bold")
        margin = GAP if section.title else 0
        for number, block in enumerate(section.blocks):
            if number and isinstance(block, model.Table) and block.entries:
                yield BLANK
            yield from _indented(drawn(block, width - margin), margin)


def drawn(block: Block, width: int) -> Iterator[Line]:
    match block:
        case model.Paragraph():
            yield from _lines(block.text, width, TONES[block.tone])
        case model.Bullets():
            for line in block.lines:
                yield from _hanging(f"{line.name}: {line.text}" if line.name else line.text, width)
        case model.Names():
            yield from _names(block.names, width)
        case model.Tiles():
            values = [f"{tile.value} ({tile.below})" if tile.below else tile.value for tile in block.tiles]
            yield from _labelled([(tile.title, text) for tile, text in zip(block.tiles, values, strict=True)], width)
        case model.Table():
            yield from _entries(block, width) if block.entries else _table(block, width)
            if block.left():
                yield from _lines(block.left(), width)
        case model.Bars():
            yield from _bars(block, width)
        case model.Grid():
            yield from _grid(block, width)


def text_of(document: Document, screen: Screen, *, everything: bool) -> str:
    """What to print on ``screen``, with ``everything`` as ``lines_of`` has it."""
    shown = lines_of(document, screen.width, everything=everything)
    lines = (coded(part, screen.color) for line in shown for part in fitting(line, screen.width))
    # Cells are filled up with spaces to their column's width; at the end of a line nobody needs them.
    return screen.encodable("\n".join(map(str.rstrip, lines)).strip("\n") + "\n")


def show(document: Document, pipe_columns: int) -> None:
    """Write all of ``document`` to standard output; where that is no terminal, ``pipe_columns`` wide."""
    from mpsprobe.output import write_stdout  # an answer that is known is drawn without what it imports

    screen = on_terminal()
    if not is_terminal():
        screen = screen._replace(width=pipe_columns)
    write_stdout(text_of(document, screen, everything=True))


def _names(names: Sequence[str], width: int) -> Iterator[Line]:
    """One below the other, in as many columns as a screen has room for; one column where it is wider than any."""
    texts = [one_line(name) for name in names]
    widest = max(map(cell_len, texts), default=0) + GAP
    columns = max(1, (width + GAP) // widest) if width <= WIDEST else 1
    height = -(-len(texts) // columns)
    for row in range(height):
        shown = texts[row::height]
        yield [(text + " " * (widest - cell_len(text) if text is not shown[-1] else 0), "") for text in shown]


def _entries(table: model.Table, width: int) -> Iterator[Line]:
    """Each row as a heading of its first two cells, the rest below it with its titles."""
    for number, row in enumerate(table.first()):
        if number:
            yield BLANK
        name, word = (model.written(cell, column.kind) for cell, column in zip(row, table.columns[:2], strict=False))
        *first, last = fold_name(name, width)
        yield from ([(part, "bold")] for part in first)
        fits = cell_len(last) + GAP + cell_len(word) <= width
        yield [(last, "bold"), *([("  ", ""), (word, STYLES.get(word, ""))] if fits else [])]
        yield from () if fits else _indented(_lines(word, width - GAP, STYLES.get(word, "")), GAP)
        facts = [(fact.title, model.written(cell, fact.kind, MOST_PLACES)) for fact, cell in model.facts(table, row)]
        places = (cell for column, cell in model.facts(table, row) if column.kind == "places")
        links = {place.text: place.url for cell in places for place in cast("tuple[Place, ...]", cell) if place.url}
        for line in _labelled(facts, width):
            yield [part for text, style in line for part in _linked(text, style, links)] if links else line


def _linked(text: str, style: str, links: Mapping[str, str]) -> Line:
    """``text`` in parts, those that can be read somewhere with the address as their style."""
    parts = re.split(f"({'|'.join(map(re.escape, links))})", text)
    return [(part, f"{LINK}{links[part]}" if part in links else style) for part in parts if part]


def _labelled(facts: Sequence[tuple[str, str]], width: int) -> Iterator[Line]:
    """Labels on the left, texts folded to the right of them."""
    room = width - max((cell_len(label) for label, _ in facts), default=0) - 2 * GAP
    return _beside([[[[(f"  {label}", "")]], _lines(text, room)] for label, text in facts])


def _table(table: model.Table, width: int) -> Iterator[Line]:
    """The columns for which there is room; the first one is folded, texts are wrapped."""
    used, rows = table.used(), table.first()
    columns = [table.columns[index] for index in used]
    cells = [
        [model.written(row[at], column.kind, MOST_IN_TABLE) for row in rows]
        for at, column in zip(used, columns, strict=True)
    ]
    natural = [max(map(cell_len, (column.title, *texts))) for column, texts in zip(columns, cells, strict=True)]
    least = [_least(column, texts, place) for place, (column, texts) in enumerate(zip(columns, cells, strict=True))]
    shown = list(range(len(columns)))
    while sum(least[index] + GAP for index in shown) > width + GAP:
        going = max(shown, key=lambda index: (columns[index].rank, index), default=0)
        if not shown or not columns[going].rank:
            break
        shown.remove(going)
    room = width + GAP - sum(least[index] + GAP for index in shown)
    for index in shown:
        more = min(natural[index] - least[index], max(room, 0))
        least[index] += more
        room -= more
    if shown and room < 0:
        least[shown[0]] = max(NARROWEST, least[shown[0]] + room)
    yield from _filled([columns[i] for i in shown], [cells[i] for i in shown], [least[i] for i in shown])
    if hidden := [column.title for index, column in enumerate(columns) if index not in shown]:
        yield from _lines(f"No room for: {', '.join(hidden)}", width)


def _least(column: Column, texts: Sequence[str], place: int) -> int:
    """The narrowest that a column may be: a name, a text and a title are broken, an amount and a verdict never."""
    widest = max(map(cell_len, (*column.title.split(), *texts)))
    if place == 0:
        return min(widest, LONGEST_NAME if column.kind == "name" else WIDEST_TEXT)
    return min(widest, WIDEST_TEXT) if column.kind in ("text", "advice", "name", "names", "places") else widest


def _filled(columns: Sequence[Column], cells: Sequence[Sequence[str]], widths: Sequence[int]) -> Iterator[Line]:
    """The one style that all tables here have: a rule below the titles, no other lines."""
    titles = [
        [line for part in column.title.split("\n") for line in _lines(part, wide, "bold")]
        for column, wide in zip(columns, widths, strict=True)
    ]
    rows = [
        [
            _lines(text, wide, STYLES.get(text, ""), code=column.kind == "name")
            for text, wide, column in zip(row, widths, columns, strict=True)
        ]
        for row in zip(*cells, strict=True)
    ]
    right = [place for place, column in enumerate(columns) if column.kind in model.AMOUNTS]
    return _beside([titles, *rows], right, len(titles))


def _beside(rows: Sequence[Sequence[Sequence[Line]]], right: Sequence[int] = (), ruled: int = 0) -> Iterator[Line]:
    """Cells of lines next to each other, those numbered in ``right`` to the right; a rule below the first row."""
    if not any(rows):  # nor is there a column where all cells are empty
        return
    widths = [max(width_of(line) for row in rows for line in row[place]) for place in range(len(rows[0]))]
    for number, row in enumerate(rows):
        for at in range(max(map(len, row), default=0)):
            drawn_line: Line = []
            for place, (lines, wide) in enumerate(zip(row, widths, strict=True)):
                line = lines[at] if at < len(lines) else BLANK
                blank = [(" " * (wide - width_of(line)), "")]
                drawn_line += [*blank, *line] if place in right else [*line, *blank]
                drawn_line += [(" " * GAP, "")] if place < len(row) - 1 else []
            yield drawn_line
        if ruled and not number:
            yield [("─" * (sum(widths) + GAP * (len(widths) - 1)), "")]


def _bars(block: model.Bars, width: int) -> Iterator[Line]:
    """A bar for each row; where a line has no room for all of it, the words go before the bar does."""
    shown = block.rows[:MOST_BARS]
    labels, said = [one_line(row.label) for row in shown], [one_line(row.said) for row in shown]
    longest = min(max(map(cell_len, labels), default=0), LONGEST_NAME)
    if width - longest - max(map(cell_len, said), default=0) - 2 * GAP < NARROWEST_BAR:
        said = [text.partition(" (")[0] for text in said]
    taken = min(max(map(cell_len, said), default=0), width // 2) + 2 * GAP
    longest = max(NARROWEST, min(longest, width - taken - NARROWEST_BAR))
    columns = max(NARROWEST_BAR, min(width - taken - longest, WIDEST_BAR))
    room = width - columns - longest - 2 * GAP
    yield from _beside(
        [
            [_lines(label, longest), [_bar(row, columns)], _lines(text, room)]
            for label, text, row in zip(labels, said, shown, strict=True)
        ]
    )
    if len(block.rows) > len(shown):
        yield [(f"and {len(block.rows) - len(shown):,} more", "")]


def _bar(row: Bar, width: int) -> Line:
    """Its parts one after the other, in eighths of a column; never empty, so that nothing looks unmeasured."""
    made: Line = []
    for part in row.parts:
        eighths = max(1, round(8 * width * min(max(part.share, 0.0), 1.0)))
        made.append((FULL * (eighths // 8) + EIGHTHS[eighths % 8].strip(), STYLES.get(str(part.color), "green")))
    return made


def _grid(block: model.Grid, width: int) -> Iterator[Line]:
    """Releases side by side where the screen is wide enough, else the history of each name."""
    spans = model.folded(block)
    rows = [(name, *(words[at] for _, at in spans)) for name, words in (*block.heads, *block.rows)]
    columns = (
        model.Column("operator", "name"),
        *(model.Column(title.replace("-", "-\n"), "verdict") for title, _ in spans),
    )
    cells = [[one_line(text) for text in texts] for texts in zip(*rows, strict=True)]
    lines = ([*column.title.split("\n"), *texts] for column, texts in zip(columns, cells, strict=True))
    widths = [max(map(cell_len, texts)) for texts in lines]
    widths[0] = min(widths[0], LONGEST_NAME)
    if sum(widths) + GAP * len(spans) <= width:
        yield from _filled(columns, cells, widths)
    elif block.rows:
        histories = []
        for name, words in block.rows:
            runs = (f"{word} {where}" for where, word in model.history(block, words) if word != model.NOTHING)
            histories.append((name, ", ".join(runs)))
        yield from _table(model.Table((columns[0], model.Column("not native")), histories), width)
    if block.legend:
        yield from _lines("; ".join(block.legend), width)


def fold_name(name: str, width: int) -> list[str]:
    """``name`` in lines of at most ``width`` characters, those after the first indented.

    A line ends at a joint of the name where there is one in its second half, else where it is full.
    """
    lines = []
    margin = ""
    while len(margin + name) > width:
        room = max(width - len(margin), 1)
        joints = [joint.start() for joint in JOINTS.finditer(name) if room // 2 <= joint.start() <= room]
        cut = max(joints, default=room) or room
        lines.append(margin + name[:cut])
        name, margin = name[cut:], " " * min(GAP, width - 1)
    return [*lines, margin + name] if name or not lines else lines


def _indented(lines: Iterable[Line], margin: int) -> Iterator[Line]:
    return ([(" " * margin, ""), *line] if margin else line for line in lines)


def _lines(text: str, width: int, style: str = "", code: bool = False) -> list[Line]:
    """A name from code at its joints, words between words; what is longer than a line anywhere."""
    text, width = one_line(text, None), max(width, 1)
    lines = [text] if code else _wrapped(text, width)
    return [[(part, style)] for line in lines for part in fold_name(line, width)]


def _wrapped(text: str, width: int) -> list[str]:
    lines = textwrap.wrap(kept(text), width, break_long_words=False, break_on_hyphens=False) or [""]
    return [line.replace(NO_BREAK, " ") for line in lines]


def _hanging(text: str, width: int, style: str = "") -> Iterator[Line]:
    """``text`` with all lines but the first indented: where it begins and the next one does is seen."""
    first, *_ = _wrapped(one_line(text, None), max(width, 1))
    yield from _lines(first, width, style)
    rest = one_line(text, None)[len(first) :].strip()
    yield from _indented(_lines(rest, width - GAP, style), GAP) if rest else ()


def cell_len(text: str) -> int:
    """The columns that ``text`` takes: two for a Chinese character, none for an accent on its own."""
    if text.isascii() or text.translate(SUBSTITUTES).isascii():
        return len(text)
    from rich.cells import cell_len as measured  # its tables of widths cost more than to draw a report without them

    return measured(text)


def width_of(line: Line) -> int:
    return sum(cell_len(text) for text, _ in line)


def fitting(line: Line, width: int) -> Iterator[Line]:
    """``line`` itself, or where it is wider than ``width`` columns as many as it takes."""
    if width_of(line) <= width:
        yield line
        return
    from rich.console import Console  # as the widths of ``cell_len``: seldom needed, and slow to import
    from rich.text import Text

    whole = Text.assemble(*((text, str(number)) for number, (text, _) in enumerate(line)))
    for part in whole.wrap(Console(width=width), width):
        yield [(part.plain[span.start : span.end], line[int(str(span.style))][1]) for span in sorted(part.spans)]


def coded(line: Line, color: bool) -> str:
    """``line`` as it is written, with ANSI sequences for its styles, and links (OSC 8), where ``color`` is."""
    return "".join(_coded(text, style) if color and style and text else text for text, style in line)


def _coded(text: str, style: str) -> str:
    if style.startswith(LINK):
        return f"\x1b]8;;{style.removeprefix(LINK)}\x1b\\{text}\x1b]8;;\x1b\\"
    return f"\x1b[{';'.join(CODES[word] for word in style.split())}m{text}\x1b[0m"
