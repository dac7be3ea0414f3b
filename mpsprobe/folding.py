"""Several records as one, by what each field says about itself: of processes, of releases, of findings with one cure.

``sum`` adds numbers, counts by key, and the parts of a record. ``unite`` keeps what is distinct, in order. ``first`` is
that of the first record that has one. A field without a word is what a record is known by: of a list, those that agree
in all of these are one. Schemas say the words (``mpsprobe.schemas.record``); views have them too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Protocol, TypeVar


class Foldable(Protocol):
    """A record, or a view of one, which knows the words of its fields."""

    folds: ClassVar[Mapping[str, str]]
    """``sum``, ``unite`` or ``first`` of each field that has a word."""

    def model_copy(self, *, update: dict[str, Any]) -> Any:
        """The same with other values of some fields."""


R = TypeVar("R", bound=Foldable)


def folded(records: Sequence[R]) -> R:
    """All of ``records``, at least one, as one."""
    first = records[0]
    if len(records) == 1:
        return first
    names = vars(first)
    update = {name: _folded([getattr(record, name) for record in records], first.folds.get(name)) for name in names}
    made: R = first.model_copy(update=update)
    return made


def united(records: Iterable[R], as_one: Callable[[Sequence[R]], R] = folded) -> list[R]:
    """``records``, those that are known by the same made one by ``as_one``, in the order of the first of each."""
    groups: dict[tuple[str, ...], list[R]] = {}
    for record in records:
        known_by = tuple(repr(value) for name, value in vars(record).items() if name not in record.folds)
        groups.setdefault(known_by, []).append(record)
    return [as_one(group) for group in groups.values()]


def _folded(values: Sequence[Any], word: str | None) -> Any:
    present = [value for value in values if value]
    if word in ("first", None) or not present:
        return present[0] if present else values[0]
    if hasattr(present[0], "folds"):
        return folded(present)
    if word == "sum":
        return dict(sum(map(Counter, present), Counter())) if isinstance(present[0], dict) else sum(present)
    if isinstance(present[0], str):
        return ", ".join(dict.fromkeys(part for text in present for part in text.split(", ")))
    every = [part for value in present for part in value]
    return united(every) if hasattr(every[0], "folds") else list(dict.fromkeys(every))
