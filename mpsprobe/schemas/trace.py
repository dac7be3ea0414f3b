"""Events on a time line, in columns: a million of them are a few lists of numbers, not a million objects."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from mpsprobe.schemas.record import Record

TrackKind = Literal["host", "device"]
"""Whose row it is."""
Category = Literal["step", "phase", "module", "operator", "launch", "kernel", "copy", "fallback", "other"]
"""What an event is; docs/explanation/operator-time.md says what each word means."""


class Track(Record):
    """A row of the time line: a thread of the host, or a queue of the device. Its events nest.

    Attributes:
        name: as viewers show it.
        kind: whose it is.
        process: its number.
        thread: its number.
    """

    name: str
    kind: TrackKind
    process: int = 0
    thread: int = 0


class Counter(Record):
    """A quantity over time, drawn as a curve: memory in bytes, power in milliwatts. The unit ends the name.

    Attributes:
        name: with the unit at its end.
        times_ns: of each value.
        values: as many as there are times.
    """

    name: str
    times_ns: list[int]
    values: list[float]


class Trace(Record):
    """Events in columns of equal length.

    Attributes:
        names: of events, each once.
        categories: of events, each once.
        tracks: the rows.
        details: of events, each once.
        name: for each event a position in ``names``.
        category: for each event a position in ``categories``.
        track: for each event a position in ``tracks``.
        detail: for each event a position in ``details``; -1 for none.
        flow: joins an event of the host with those of the device that it caused: equal numbers belong together, 0
            to nothing.
        start_ns: of each event, in ascending order.
        duration_ns: of each event.
        counters: quantities over time.
    """

    names: list[str] = []
    categories: list[Category] = []
    tracks: list[Track] = []
    details: list[dict[str, str]] = []
    name: list[int] = []
    category: list[int] = []
    track: list[int] = []
    detail: list[int] = []
    flow: list[int] = []
    start_ns: list[int] = []
    duration_ns: list[int] = []
    counters: list[Counter] = []
    truncated: int = Field(default=0, ge=0, description="How many events were left out.")

    @model_validator(mode="after")
    def _columns_agree(self) -> Trace:
        count = len(self.start_ns)
        columns = (self.name, self.category, self.track, self.detail, self.flow, self.duration_ns)
        if any(len(column) != count for column in columns):
            raise ValueError("the columns of a trace have different lengths")
        for column, targets, lowest in (
            (self.name, self.names, 0),
            (self.category, self.categories, 0),
            (self.track, self.tracks, 0),
            (self.detail, self.details, -1),
        ):
            if column and not (min(column) >= lowest and max(column) < len(targets)):
                raise ValueError("a column of a trace points outside its table")
        if count and min(self.duration_ns) < 0:
            raise ValueError("an event of a trace ends before it starts")
        for counter in self.counters:
            if len(counter.times_ns) != len(counter.values):
                raise ValueError(f"the counter '{counter.name[:40]}' has different numbers of times and values")
        return self
