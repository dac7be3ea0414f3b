"""The events of a trace in typed columns: some sixty bytes for each, however long its text was."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

# What an event is; the order is that of ``schemas.trace.Category``. An annotation (in what is recorded, any other call
# too) is shown as ``other``; unlike those it is a call that the operator around it makes.
KINDS = ("step", "phase", "module", "operator", "launch", "kernel", "copy", "fallback", "other", "annotation")
STEP, PHASE, MODULE, OPERATOR, LAUNCH, KERNEL, COPY, FALLBACK, OTHER, ANNOTATION = range(len(KINDS))
LONGEST_NAME = 10_000  # characters
# Bounds on what takes some hundred bytes for each different one. A file that was packed well has millions of them.
MOST_ROWS = 10_000  # threads and streams; curves
MOST_NAMES = 100_000
MOST_DETAILS = 250_000
TOO_MANY_ROWS = f"of more than {MOST_ROWS:,} threads or curves"
Detail = tuple[tuple[str, str], ...]
Place = tuple[object, object, bool]
"""Process, thread, and whether on a device."""
Node = tuple[int, int]
"""A node of autograd: the thread whose forward pass made it, and its sequence number."""


class Numbers(dict[Any, int]):
    """Numbers for values, in the order in which they first came."""

    def __missing__(self, value: Any) -> int:
        self[value] = new = len(self)
        return new


@dataclass(slots=True)
class TrackInfo:
    """A thread of a process, as the file calls both, with the numbers of its events."""

    process: object
    thread: object
    device: bool
    events: array[int] = field(default_factory=lambda: array("q"))


class Columns:
    """All events of one cell, of which the report's trace keeps ``limit``.

    ``recorded``: they were recorded here: ``External id`` alone says which operator started a kernel (otherwise, where
    there is one, its launch), and there is no bound on details.
    """

    def __init__(self, limit: int, recorded: bool = False) -> None:
        self.name, self.kind, self.track = array("q"), array("b"), array("q")
        self.detail, self.flow = array("q"), array("q")
        self.external = array("q")  # ``External id`` of operators and kernels, 0 for none
        self.start_ns, self.duration_ns = array("q"), array("q")
        self.names, self.details = Numbers(), Numbers()
        self.tracks: list[TrackInfo] = []
        self.counters: dict[str, tuple[array[int], array[float]]] = {}  # times and values, in the order of the file
        self.forward_nodes: dict[int, Node] = {}  # that an operator of a forward pass made, by its number
        self.backward_nodes: dict[int, Node] = {}  # that a unit of work of a backward pass runs, by its number
        self.frames = 0  # events that were left out and no total needs: of Python functions, beyond the limit
        self.undescribed = 0  # events without their detail, of which there are too many
        self.recorded = recorded
        self._limit = limit
        self._track_numbers: dict[Place, int] = {}

    def __len__(self) -> int:
        return len(self.kind)

    @property
    def full(self) -> bool:
        return len(self) >= self._limit

    @property
    def kept(self) -> int:
        """How many events the trace keeps, the first ones; the others count in the totals only."""
        return min(len(self), self._limit)

    @property
    def left_out(self) -> int:
        return len(self) - self.kept + self.frames

    def add(
        self,
        kind: int,
        name: str,
        place: Place,
        times: tuple[int, int],
        detail: Detail = (),
        flow: int = 0,
        external: int = 0,
    ) -> str | None:
        """One event; ``times`` are start and duration in ns. Why it cannot be taken in, if it cannot."""
        number = self._track_numbers.get(place)
        if len(self.names) >= MOST_NAMES and name not in self.names:
            return f"of more than {MOST_NAMES:,} names"
        if number is None:
            if len(self.tracks) >= MOST_ROWS:
                return TOO_MANY_ROWS
            number = self._track_numbers[place] = len(self.tracks)
            self.tracks.append(TrackInfo(*place))
        self.tracks[number].events.append(len(self))
        self.kind.append(kind)
        self.name.append(self.names[name])
        self.track.append(number)
        self.detail.append(self._detail(detail) if detail else -1)
        self.flow.append(flow)
        self.external.append(external)
        self.start_ns.append(times[0])
        self.duration_ns.append(times[1])
        return None

    def _detail(self, detail: Detail) -> int:
        if not self.recorded and len(self.details) >= MOST_DETAILS and detail not in self.details:
            self.undescribed += 1
            return -1
        return self.details[detail]

    def count(self, name: str, at_ns: int, value: float) -> str | None:
        """One point of a curve; why it cannot be taken in, if it cannot."""
        if len(self.counters) >= MOST_ROWS and name not in self.counters:
            return TOO_MANY_ROWS
        times_ns, values = self.counters.setdefault(name, (array("q"), array("d")))
        times_ns.append(at_ns)
        values.append(value)
        return None

    def in_order(self, track: TrackInfo) -> list[int]:
        """The events of ``track`` by start, the longer first where two start together."""
        order = list(track.events)
        start, duration = self.start_ns, self.duration_ns
        if any((start[a], -duration[a]) > (start[b], -duration[b]) for a, b in pairwise(order)):
            self.sort(order)
        return order

    def sort(self, numbers: list[int]) -> None:
        # Two stable sorts by numbers instead of one by pairs: half of the memory.
        numbers.sort(key=self.duration_ns.__getitem__, reverse=True)
        numbers.sort(key=self.start_ns.__getitem__)

    def described(self, index: int, details: list[Detail]) -> Mapping[str, str]:
        """The detail of an event; ``details`` is ``list(self.details)``."""
        return dict(details[self.detail[index]]) if self.detail[index] >= 0 else {}


def cleaned(text: str) -> str:
    """``text`` as UTF-8 can hold it, of a length that is still a name."""
    if not text.isascii():
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text[:LONGEST_NAME]
