"""What a package ships of a store: a folder with an index, and blocks of answers that are compressed together.

A block has the name of its content. A segment of an answer (``answers.py``) that is still right stays in its block, and
a new release is a segment behind the others, so that shipping again changes only the blocks that have something new:
the history of a repository grows by these.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from mpsprobe.errors import OutputError
from mpsprobe.suggestions import printable
from mpsprobe_atlas.answers import Answers, Segment, compressed, for_shipping, packed, unpack
from mpsprobe_atlas.store import ENDING, INDEX, LOCK, Key, Store, WritableStore

BLOCK = 6_000_000  # bytes of text that are compressed together: more take longer to read, and little less room


_Place = tuple[Key, int]
"""Of a segment: whose it is, and its number in that answer."""


def ship(path: str | Path, target: str | Path) -> None:
    """Bring the folder ``target``, which may have been shipped before, to what the store at ``path`` has.

    Rows that the store does not have stay as they are. What is left out says ``answers.for_shipping``.
    """
    folder, made = Path(target), Path(f"{target}.new")
    taken = made if made.exists() else folder
    if taken.exists() and not (taken / INDEX).is_file():
        raise OutputError(f"{printable(str(taken))} is there already", "Name another folder.")
    if made.exists():
        _remove(made)  # of one that was stopped
    made.mkdir()
    blocks: dict[str, list[_Place]] = {}
    rows = {}
    if folder.exists():
        with Store(folder) as shipped:
            about = shipped.about()
            for row in shipped.whole_rows():
                rows[row.key] = row
                for number, name in enumerate(shipped.blocks_of(row.key)):
                    blocks.setdefault(name, []).append((row.key, number))
    with Store(path) as store:
        about = store.about()
        for row in store.whole_rows():
            earlier = rows.get(row.key)
            if row.answer is not None:
                known = unpack(earlier.answer) if earlier is not None and earlier.answer is not None else None
                rows[row.key] = replace(row, answer=packed(for_shipping(unpack(row.answer), known)))
            else:
                rows[row.key] = row
    answers = {key: unpack(row.answer) for key, row in rows.items() if row.answer is not None}
    with WritableStore(made / INDEX, about) as index:
        numbers = {key: index.add(replace(rows[key], answer=None)) for key in sorted(rows)}
        for block in _placed(answers, blocks):
            _write(made, index, numbers, block)
        index.finish()
    (made / f"{INDEX}{LOCK}").unlink()
    if folder.exists():
        _remove(folder)
    made.rename(folder)


def unship(folder: str | Path, path: str | Path) -> None:
    """Write what a package ships as a store at ``path``, a new file, that a sweep can go on with."""
    with Store(folder) as shipped, WritableStore(path, shipped.about()) as store:
        for row in shipped.whole_rows():
            store.add(row)


def _remove(folder: Path) -> None:
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()


def _placed(answers: dict[Key, Answers], blocks: dict[str, list[_Place]]) -> Iterator[dict[_Place, Segment]]:
    """The segments of all answers by blocks: in those that there were before, and new ones in further blocks."""
    left = {(key, number): segment for key, of in answers.items() for number, segment in enumerate(of.segments)}
    for places in blocks.values():
        if block := {place: left.pop(place) for place in places if place in left}:
            yield block
    new: dict[_Place, Segment] = {}
    for place in sorted(left):
        if new and sum(part.length for part in new.values()) + left[place].length > BLOCK:
            yield new
            new = {}
        new[place] = left[place]
    if new:
        yield new


def _write(folder: Path, index: WritableStore, numbers: dict[Key, int], block: dict[_Place, Segment]) -> None:
    """A block: the heads of its segments, then their bodies, the shortest first, as little is read for one of those."""
    places = sorted(block, key=lambda place: (block[place].length, place))
    heads = json.dumps([json.loads(block[place].head) for place in places], separators=(",", ":")).encode()
    content = compressed([heads, *(block[place].body for place in places)])
    name = hashlib.sha256(content).hexdigest()[:16]
    (folder / f"{name}{ENDING}").write_bytes(content)
    start, parts = len(heads), []
    for order, place in enumerate(places):
        parts.append((numbers[place[0]], place[1], order, start))
        start += block[place].length
    index.add_block(name, len(heads), parts)
