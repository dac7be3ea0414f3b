"""The range of a peak where sizes depend on values that are not known: with the fewest and the most that can be found.

How many boxes a detector keeps, or how many tokens an expert gets, only data says. ``nonzero``, a mask and their like
find from none to all of what they are given, so both ends are run: the fewest, and the most where that is not what was
found first.
"""

from __future__ import annotations

from collections.abc import Callable

from mpsprobe.schemas import MemoryPrediction, MemoryRange
from mpsprobe_coverage.devices.virtual.data_dependent import BOUNDED, ONES_ASSUMPTION, UNIQUE, Found
from mpsprobe_coverage.knowledge.memory.timeline import timeline
from mpsprobe_coverage.recording.recorder import Note, Recorder
from mpsprobe_coverage.recording.trace import Trace
from mpsprobe_coverage.reporting.findings import site

MOST_PLACES = 4
Again = Callable[..., Trace]
"""Runs it again, with ``unknown="fewest"`` or ``"most"``."""


def at_most(recorder: Recorder, wanted: Found) -> list[Note]:
    """Where a run that was asked for ``found`` took the most that there can be."""
    return [note for note in _bounded(recorder) if wanted == "most" or _name(note) not in UNIQUE]


def predicted(
    first: Trace, again: Again, predict: Callable[[Trace], MemoryPrediction | None], *, ranged: bool = True
) -> MemoryPrediction | None:
    """What ``predict`` makes of the run with the most that can be found; ``first`` is that whose values were assumed.

    ``ranged``: with the range down to the fewest, which takes one more run.
    """
    notes = [] if first.failure is not None else _bounded(first.recorder)
    high = first
    if any(_name(note) in UNIQUE for note in notes):
        most = again(unknown="most")
        high = first if most.failure is not None else max(first, most, key=_peak)
    prediction = predict(high)
    if not notes or prediction is None or not ranged:
        return prediction
    fewest = again(unknown="fewest")
    low = None if fewest.failure is not None else _peak(fewest)
    if low is not None and low >= prediction.peak_bytes:
        return prediction
    both = MemoryRange(low_bytes=low, high_bytes=prediction.peak_bytes, because=places(notes))
    return prediction.model_copy(update={"range": both})


def places(notes: list[Note]) -> list[str]:
    """``aten::nonzero at path/to/file.py:12``, a few of them."""
    at = ((note.operator, note.origin) for note in notes)
    names = (f"{name} at {site(origin.file, origin.line)}" if origin.file else name for name, origin in at)
    return [*dict.fromkeys(names)][:MOST_PLACES]


def _bounded(recorder: Recorder) -> list[Note]:
    """Where a run asked how many there are of something, which is not known but has two ends."""
    return [note for note in recorder.assumptions() if note.text == ONES_ASSUMPTION and _name(note) in BOUNDED]


def _name(note: Note) -> str:
    return note.operator.partition(".")[0]


def _peak(trace: Trace) -> int:
    return timeline(trace.events).peak
