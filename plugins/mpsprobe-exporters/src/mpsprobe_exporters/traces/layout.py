"""Processes and threads of a written trace: unique numbers, names, the order in which they stand; and the frame."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count, islice
from typing import TYPE_CHECKING, Any

from mpsprobe_exporters.reports.configurations import dtype, sizes
from mpsprobe_exporters.traces.encoding import SEPARATOR, text

if TYPE_CHECKING:
    from mpsprobe.schemas import ProfileCell

AT_ONCE = 4096  # lines in one piece


def framed(head: str, events: Iterable[str]) -> Iterator[str]:
    """The whole file: the JSON object ``head`` with the events, in pieces.

    torch-tb-profiler cuts a file at its last bracket to add counters of its own: nothing may stand behind the events.
    """
    yield f"{head[:-1]},{SEPARATOR[1:]}" + '"traceEvents":['
    first = True
    for piece in events:
        yield piece.removeprefix(SEPARATOR) if first else piece
        first = first and not piece
    yield "\n]}\n"


def where(cell: ProfileCell) -> str:
    """``mps, batch 8, sequence 128, float32``: on what, and with which sizes."""
    return ", ".join(filter(None, [cell.device, *sizes(cell), dtype(cell)]))


def title(cell: ProfileCell) -> str:
    """``bert-base training, mps, batch 8, sequence 128, float32``: what a viewer shows of a cell."""
    return f"{cell.workload} {cell.phase}, {where(cell)}"


class Layout:
    """Gives out processes and threads, and keeps the metadata events that name them until they are written."""

    def __init__(self) -> None:
        self._waiting: list[str] = []
        self._threads = count(1)
        self.processes = count(1)
        self.flows = 0  # numbers of arrows that are taken

    def process(self, number: int, name: str, label: str | None = None) -> None:
        """Name the process ``number``; they stand in the order of their numbers. ``label`` is shown after the name."""
        self._tell(number, 0, "process_name", f'"name":{text(name)}')
        self._tell(number, 0, "process_sort_index", f'"sort_index":{number}')
        if label is not None:
            self._tell(number, 0, "process_labels", f'"labels":{text(label)}')

    def thread(self, process: int, name: str) -> str:
        """A thread's place as JSON text; they count through the whole file, so that equal names are no trouble."""
        thread = next(self._threads)
        self._tell(process, thread, "thread_name", f'"name":{text(name)}')
        self._tell(process, thread, "thread_sort_index", f'"sort_index":{thread}')
        return f'"pid":{process},"tid":{thread}'

    def pieces(self, lines: Iterable[str]) -> Iterator[str]:
        """``lines`` in pieces of many; rows that were added meanwhile are named before their events."""
        rest = iter(lines)
        while some := list(islice(rest, AT_ONCE)):
            yield "".join([*self.taken(), *some])

    def taken(self) -> list[str]:
        """The metadata events since the last call, each behind a separator."""
        waiting, self._waiting = self._waiting, []
        return waiting

    def _tell(self, process: int, thread: int, what: str, argument: str) -> None:
        self._waiting.append(
            f'{SEPARATOR}{{"ph":"M","name":"{what}","pid":{process},"tid":{thread},"ts":0,"args":{{{argument}}}}}'
        )


class Row:
    """One track of a trace. An event that overlaps another in part goes to a lane of its own below it: viewers drop or
    distort what does not nest. ``ends`` is when the events end that are open on the first lane, the innermost last,
    and ``contexts`` what the writer wants to know of each.
    """

    __slots__ = ("_beside", "_layout", "_name", "_process", "contexts", "ends", "place")

    def __init__(self, layout: Layout, process: int, name: str) -> None:
        self._layout, self._process, self._name = layout, process, name
        self._beside: list[tuple[list[int], str]] = []
        self.ends: list[int] = []
        self.contexts: list[Any] = []
        self.place = layout.thread(process, name)

    def lane_for(self, begin: int, end: int) -> str:
        """The place of a lane where an event from ``begin`` to ``end`` nests; made if there is none."""
        for ends, place in self._beside:
            while ends and ends[-1] <= begin:
                ends.pop()
            if not ends or end <= ends[-1]:
                ends.append(end)
                return place
        place = self._layout.thread(self._process, f"{self._name} ({len(self._beside) + 2})")
        self._beside.append(([end], place))
        return place
