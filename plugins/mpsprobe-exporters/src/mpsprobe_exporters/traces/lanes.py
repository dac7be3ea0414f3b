"""Rows of a time line on which events nest: viewers drop or distort what overlaps only in part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Row:
    """One track of a trace. An event that overlaps another in part goes to a lane of its own beside it.

    ``announce`` names a lane in the file and returns its place as JSON text.

    Attributes:
        ends: when the events end that are open on the first lane, the innermost last.
        place: the JSON text of the first lane's process and thread.
        contexts: what the writer wants to know of the open events, one for each of ``ends``.
    """

    __slots__ = ("_announce", "_beside", "_name", "contexts", "ends", "place")

    def __init__(self, name: str, announce: Callable[[str], str]) -> None:
        self._name = name
        self._announce = announce
        self._beside: list[tuple[list[int], str]] = []
        self.ends: list[int] = []
        self.contexts: list[Any] = []
        self.place = announce(name)

    def beside(self, begin: int, end: int) -> str:
        """The place of a lane where an event from ``begin`` to ``end`` nests; made if there is none."""
        for ends, place in self._beside:
            while ends and ends[-1] <= begin:
                ends.pop()
            if not ends or end <= ends[-1]:
                ends.append(end)
                return place
        place = self._announce(f"{self._name} ({len(self._beside) + 2})")
        self._beside.append(([end], place))
        return place
