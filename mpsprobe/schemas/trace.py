"""Events on a time line, in columns: a million of them are a few lists of numbers, not a million objects."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from mpsprobe.schemas.record import Record

TrackKind = Literal["host", "device"]
Category = Literal["step", "phase", "module", "operator", "launch", "kernel", "copy", "fallback", "other"]


class Track(Record):
    """A row of the time line: a thread of the host, or a queue of the device. Its events nest."""

    name: str
    kind: TrackKind
    process: int = 0
    thread: int = 0


class Counter(Record):
    """A quantity over time, drawn as a curve: memory in bytes, power in milliwatts. The unit ends the name."""

    name: str
    times_ns: list[int]
    values: list[float]


class Trace(Record):
    """Events in columns of equal length, ordered by ``start_ns``.

    ``name``, ``category``, ``track`` and ``detail`` are positions in ``names``, ``categories``, ``tracks`` and
    ``details``; ``detail`` -1 means none. ``flow`` joins an event of the host with those of the device that it caused:
    equal numbers belong together, 0 to nothing.
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
