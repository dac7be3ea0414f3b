"""The range of a peak where sizes depend on values that are not known: with the fewest and the most that can be found.

How many boxes a detector keeps, or how many tokens an expert gets, only data says. ``nonzero``, a mask and their like
find from none to all of what they are given, so both ends are run: the fewest, and the most where that is not what was
found first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from mpsprobe.schemas import MemoryPrediction, MemoryRange, RunFailure
from mpsprobe_coverage.devices.virtual.data_dependent import BOUNDED, ONES_ASSUMPTION, UNIQUE, Found
from mpsprobe_coverage.knowledge.memory.lifetimes import Event
from mpsprobe_coverage.knowledge.memory.timeline import timeline
from mpsprobe_coverage.recording.recorder import Note, Recorder
from mpsprobe_coverage.reporting.findings import site

MOST_PLACES = 4


class Ran(Protocol):
    """What is read of a run; ``Trace`` has it."""

    recorder: Recorder
    failure: RunFailure | None
    events: Sequence[Event]


Again = Callable[..., Ran]
"""Runs it again, with ``unknown="fewest"`` or ``"most"``."""


def bounded(recorder: Recorder) -> list[Note]:
    """Where a run asked how many there are of something, which is not known but has two ends."""
    return [one for one in recorder.assumptions() if one.text == ONES_ASSUMPTION and _name(one) in BOUNDED]


def at_most(recorder: Recorder, found: Found) -> list[Note]:
    """Where a run that was asked for ``found`` took the most that there can be."""
    return [one for one in bounded(recorder) if found == "most" or _name(one) not in UNIQUE]


def predicted(
    first: Ran, again: Again, predict: Callable[..., MemoryPrediction | None], *, ranged: bool = True
) -> MemoryPrediction | None:
    """What ``predict`` makes of the run with the most that can be found.

    Args:
        first: the run whose values were assumed.
        predict: makes the section of the report from a run.
        ranged: with the range down to the fewest, which takes one more run.
    """
    notes = [] if first.failure is not None else bounded(first.recorder)
    high = first
    if any(_name(one) in UNIQUE for one in notes):
        most = again(unknown="most")
        high = first if most.failure is not None else max(first, most, key=_peak)
    prediction = predict(high)
    if not notes or prediction is None or not ranged:
        return prediction
    fewest = again(unknown="fewest")
    low = None if fewest.failure is not None else _peak(fewest)
    if low is not None and low >= prediction.peak_bytes:
        return prediction
    found = MemoryRange(low_bytes=low, high_bytes=prediction.peak_bytes, because=places(notes))
    return prediction.model_copy(update={"range": found})


def places(notes: list[Note]) -> list[str]:
    """``aten::nonzero at path/to/file.py:12``, a few of them."""
    at = ((one.operator, one.origin) for one in notes)
    return [*dict.fromkeys(f"{name} at {site(one.file, one.line)}" if one.file else name for name, one in at)][
        :MOST_PLACES
    ]


def _name(note: Note) -> str:
    return note.operator.partition(".")[0]


def _peak(ran: Ran) -> int:
    return timeline(ran.events).peak
