"""The events of one trace in the order of their start times, and the arrows between them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from mpsprobe_exporters.traces.encoding import SEPARATOR

if TYPE_CHECKING:
    from mpsprobe.schemas import Trace

kept = lru_cache(maxsize=65_536)
"""For texts of names and details: never more are kept for more events."""
CAUSED, JOINED, BEGUN = 1, 2, 4
BEGINS = f'{SEPARATOR}{{"ph":"s","cat":"ac2g","name":"ac2g",'
ENDS = f'{SEPARATOR}{{"ph":"f","bp":"e","cat":"ac2g","name":"ac2g",'
SPARSE = 16  # numbers for each event from which on a table would be larger than a dictionary
Columns = Iterable[tuple[int, int, int, int, int, int, int]]


class Slices:
    """One trace, whose first event begins at ``offset_ns`` in the written file: ``base_ns`` is taken from its times.

    Its arrows join the first event of the host with a number and the first one of the device after it. They take a byte
    for each number, so that a million of them are no burden. ``first_flow`` is added to their numbers, so that they are
    unique in the file; ``flows`` is the largest.
    """

    def __init__(self, trace: Trace, offset_ns: int = 0, first_flow: int = 0) -> None:
        self.base_ns = min(trace.start_ns, default=0) - offset_ns
        self.on_host = [track.kind == "host" for track in trace.tracks]
        self._trace = trace
        self._order = _order(trace)
        self._first = first_flow
        self.flows = 0
        largest = max(trace.flow, default=0)
        dense = 0 <= largest <= SPARSE * len(trace.flow) + 1024
        self._states: bytearray | defaultdict[int, int] = bytearray(largest + 1) if dense else defaultdict(int)
        for index in (range(len(trace.flow)) if self._order is None else self._order) if largest else ():
            number = trace.flow[index]
            if number > 0:
                state = self._states[number]
                if self.on_host[trace.track[index]]:
                    self._states[number] = state | CAUSED
                elif state == CAUSED:
                    self._states[number] = CAUSED | JOINED
                    self.flows = max(self.flows, number)

    def columns(self) -> Columns:
        """Name, category, track, detail, flow, start and duration of each event."""
        trace = self._trace
        columns = (trace.name, trace.category, trace.track, trace.detail, trace.flow, trace.start_ns, trace.duration_ns)
        if self._order is None:
            return zip(*columns, strict=True)
        return ((*(column[index] for column in columns),) for index in self._order)  # type: ignore[misc]

    def arrow(self, number: int, on_host: bool) -> str:
        """The beginning of the line of an arrow that begins (``on_host``) or ends at this event; empty for none."""
        state = self._states[number] if number > 0 else 0
        if on_host and state == CAUSED | JOINED:
            self._states[number] = CAUSED | JOINED | BEGUN
            return f'{BEGINS}"id":{self._first + number},'
        if not on_host and state == CAUSED | JOINED | BEGUN:
            self._states[number] = CAUSED
            return f'{ENDS}"id":{self._first + number},'
        return ""


def _order(trace: Trace) -> list[int] | None:
    """Positions by start, the longer event first where two start together; ``None`` where they are in order."""
    starts, lengths = trace.start_ns, trace.duration_ns
    following = pairwise(zip(starts, lengths, strict=True))
    if all(before[0] < after[0] or (before[0] == after[0] and before[1] >= after[1]) for before, after in following):
        return None
    return sorted(range(len(starts)), key=lambda index: (starts[index], -lengths[index]))
