"""Events on a time line, in columns: a million of them are a few lists of numbers, not a million objects."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from mpsprobe.schemas.record import Record

Category = Literal["step", "phase", "module", "operator", "launch", "kernel", "copy", "fallback", "other"]
"""What an event is; docs/explanation/operator-time.md says what each word means."""


class Track(Record):
    """A row of the time line: a thread of the host, or a queue of the device. Its events nest."""

    name: str = Field(description="As viewers show it.")
    kind: Literal["host", "device"] = Field(description="Whose it is.")
    process: int = Field(default=0, description="Its number.")
    thread: int = Field(default=0, description="Its number.")


class Counter(Record):
    """A quantity over time, drawn as a curve: memory in bytes, power in milliwatts. The unit ends the name."""

    name: str = Field(description="With the unit at its end.")
    times_ns: list[int] = Field(description="Of each value.")
    values: list[float] = Field(description="As many as there are times.")


class Trace(Record):
    """Events in columns of equal length."""

    names: list[str] = Field(default=[], description="Of events, each once.")
    categories: list[Category] = Field(default=[], description="Of events, each once.")
    tracks: list[Track] = Field(default=[], description="The rows.")
    details: list[dict[str, str]] = Field(default=[], description="Of events, each once.")
    name: list[int] = Field(default=[], description="For each event a position in `names`.")
    category: list[int] = Field(default=[], description="For each event a position in `categories`.")
    track: list[int] = Field(default=[], description="For each event a position in `tracks`.")
    detail: list[int] = Field(default=[], description="For each event a position in `details`; -1 for none.")
    flow: list[int] = Field(default=[], description="Equal numbers join the host's event and the device's; 0: none.")
    start_ns: list[int] = Field(default=[], description="Of each event, in ascending order.")
    duration_ns: list[int] = Field(default=[], description="Of each event.")
    counters: list[Counter] = Field(default=[], description="Quantities over time.")
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
