"""Which numbers join an event of the host with one of the device that began after it: only those become arrows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING

from mpsprobe_exporters.traces.layout import SEPARATOR

if TYPE_CHECKING:
    from mpsprobe.schemas import Trace

CAUSED, JOINED, BEGUN = 1, 2, 4
BEGINS = f'{SEPARATOR}{{"ph":"s","cat":"ac2g","name":"ac2g",'
ENDS = f'{SEPARATOR}{{"ph":"f","bp":"e","cat":"ac2g","name":"ac2g",'
SPARSE = 16  # numbers for each event from which on a table would be larger than a dictionary


class Flows:
    """Looks at a trace once, in the order of its start times, then tells for each event what to draw.

    An arrow goes from the first event of the host with a number to the first one of the device after it. It takes a
    byte for each number, so that a million arrows are no burden.
    """

    def __init__(self, trace: Trace, order: Iterable[int], first: int) -> None:
        self._first = first
        largest = max(trace.flow, default=0)
        dense = 0 <= largest <= SPARSE * len(trace.flow) + 1024
        self._states: bytearray | defaultdict[int, int] = bytearray(largest + 1) if dense else defaultdict(int)
        self.count = 0
        if not largest:
            return
        device = [one.kind == "device" for one in trace.tracks]
        tracks, flows = trace.track, trace.flow
        for index in order:
            number = flows[index]
            if number > 0:
                state = self._states[number]
                if not device[tracks[index]]:
                    self._states[number] = state | CAUSED
                elif state == CAUSED:
                    self._states[number] = CAUSED | JOINED
                    self.count = max(self.count, number)

    def arrow(self, number: int, on_host: bool) -> str:
        """The beginning of the line of an arrow that begins (``on_host``) or ends at this event; empty for none."""
        if number <= 0:
            return ""
        state = self._states[number]
        if on_host:
            if state != CAUSED | JOINED:
                return ""
            self._states[number] = CAUSED | JOINED | BEGUN
            return f'{BEGINS}"id":{self._first + number},'
        if state != CAUSED | JOINED | BEGUN:
            return ""
        self._states[number] = CAUSED
        return f'{ENDS}"id":{self._first + number},'
