"""Long lists of module names, folded: ``encoder.layer.{0..11}.attention.self.query`` stands for twelve of them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import groupby

ROOT = "(model)"
# A number that is written as `str(int(text))` writes it, so that folding can be undone.
MOST_NUMBERS = 12
NUMBER = re.compile(r"(?<![0-9])(0|[1-9][0-9]{0,8})(?![0-9])")


def fold_names(names: Iterable[str]) -> list[str]:
    """Patterns that stand for exactly ``names``, in the order of first appearance.

    ``{0..3}`` stands for 0, 1, 2 and 3; ``{0,2,5..7}`` for 0, 2, 5, 6 and 7. Names that differ in
    more than one number are folded where that says exactly the same (``{0..1}.conv{1..2}`` stands
    for all four combinations). A name that has a brace in it is left as it is. The empty name,
    which PyTorch gives the model itself, becomes ``(model)``.
    """
    return list(_folded(tuple(names)))


@lru_cache(maxsize=1024)  # the columns of a row, and the operators of a model, have many in common
def _folded(names: tuple[str, ...]) -> tuple[str, ...]:
    families: dict[tuple[str, ...], list[tuple[tuple[int, ...], int]]] = {}
    for position, name in enumerate(dict.fromkeys(names)):
        parts = [name] if "{" in name or "}" in name else NUMBER.split(name)
        if len(parts) > 2 * MOST_NUMBERS:  # no name of a module, and slow to fold
            parts = [name]
        numbers = tuple(int(part) for part in parts[1::2])
        families.setdefault(tuple(parts[0::2]), []).append((numbers, position))
    folded: list[tuple[int, str]] = []
    for texts, members in families.items():
        for slots, position in _merged(members):
            pieces = [texts[0]]
            for slot, text in zip(slots, texts[1:], strict=True):
                pieces += [_slot(slot), text]
            folded.append((position, "".join(pieces) or ROOT))
    return tuple(pattern for _, pattern in sorted(folded))


def _merged(members: list[tuple[tuple[int, ...], int]]) -> list[tuple[list[frozenset[int]], int]]:
    """Boxes (one set of numbers for each slot) that cover exactly the members, last slot merged first."""
    # A key holds the numbers of the slots that are still to be merged, then the sets of those that are.
    boxes: dict[tuple[tuple[int, ...], tuple[frozenset[int], ...]], int]
    boxes = {(numbers, ()): position for numbers, position in members}
    for _ in members[0][0]:
        groups: dict[tuple[tuple[int, ...], tuple[frozenset[int], ...]], tuple[set[int], int]] = {}
        for (numbers, merged), position in boxes.items():  # in the order of first appearance, which stays
            groups.setdefault((numbers[:-1], merged), (set(), position))[0].add(numbers[-1])
        boxes = {
            (numbers, (frozenset(values), *merged)): position
            for (numbers, merged), (values, position) in groups.items()
        }
    return [(list(merged), position) for (_, merged), position in boxes.items()]


def _slot(numbers: frozenset[int]) -> str:
    """``7``, ``{0..11}`` or ``{0,2,5..7}``."""
    parts: list[str] = []
    for _, run in groupby(enumerate(sorted(numbers)), lambda number: number[1] - number[0]):
        texts = [str(number) for _, number in run]
        parts += texts if len(texts) < 3 else [f"{texts[0]}..{texts[-1]}"]
    return parts[0] if len(numbers) == 1 else "{" + ",".join(parts) + "}"
