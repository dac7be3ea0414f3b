"""A recording as a ``Trace``: columns of numbers, from 0 on."""

from __future__ import annotations

from itertools import count
from typing import Any

from mpsprobe.schemas import Counter, Trace, Track
from mpsprobe_devices.operators.events import Event, Recording
from mpsprobe_devices.operators.phases import phase_events

MAX_EVENTS = 500_000


def make_trace(recording: Recording, device: str, most: int = MAX_EVENTS) -> Trace:
    """The time line of ``recording``; the last events are left out and counted where there are more than ``most``."""
    ranked: list[tuple[Event, str]] = [(event, "phase") for event in phase_events(recording)]
    ranked += [(event, event.kind) for event in (*recording.host, *recording.device)]
    steps = {event: number for number, event in enumerate(recording.steps())}
    ranked = [(event, kind) for event, kind in ranked if event.kind != "step" or event in steps]
    ranked.sort(key=lambda pair: (pair[0].start, -pair[0].end, _DEPTH.get(pair[1], 9)))
    table = _Tables(recording, device, steps)
    kept = ranked[:most]
    zero = min((event.start for event, _ in ranked), default=0)
    rows = [table.row(event, kind) for event, kind in kept]
    return Trace.model_validate(
        {
            "names": list(table.names),
            "categories": list(table.categories),
            "tracks": list(table.tracks.values()),
            "details": table.details,
            "name": [row[0] for row in rows],
            "category": [row[1] for row in rows],
            "track": [row[2] for row in rows],
            "detail": [row[3] for row in rows],
            "flow": [event.flow for event, _ in kept],
            "start_ns": [event.start - zero for event, _ in kept],
            "duration_ns": [event.duration for event, _ in kept],
            "counters": _counters(recording, zero),
            "truncated": len(ranked) - len(kept),
        }
    )


# What is around what, where both begin and end together.
_DEPTH = {"step": 0, "phase": 1, "optimizer": 2, "module": 3, "other": 4, "operator": 5, "fallback": 5, "launch": 6}


class _Tables:
    """What the columns point to, made on the way."""

    def __init__(self, recording: Recording, device: str, steps: dict[Event, int]) -> None:
        self.names: dict[str, int] = {}
        self.categories: dict[str, int] = {}
        self.details: list[dict[str, str]] = []
        self.tracks: dict[object, Track] = {}
        self._places: dict[object, int] = {}
        self._ends: dict[object, list[int]] = {}
        self._known: dict[tuple[tuple[str, str], ...], int] = {}
        self._recording, self._device, self._steps = recording, device, steps
        self._main = next((event.track for event in recording.host if event.kind == "step"), None)
        self._numbers = count(1)

    def row(self, event: Event, kind: str) -> tuple[int, int, int, int]:
        """Positions of name, category, track and detail."""
        name, detail = event.name, dict(event.detail or {})
        if kind == "step":
            name = f"ProfilerStep#{self._steps[event]}"
        elif kind == "module":
            path, made = self._recording.modules[event.module]
            name, detail = f"nn.Module: {made}", {"module": path, "type": made}
        elif kind == "optimizer":
            name, kind = "optimizer step", "other"
        if event.shapes:
            detail["shapes"], detail["dtypes"] = event.shapes, event.dtypes
        if event.sequence >= 0:
            detail["sequence"] = str(event.sequence)
            if event.backward:
                detail["pass"] = "backward"
        return (
            self.names.setdefault(name, len(self.names)),
            self.categories.setdefault(kind, len(self.categories)),
            self._track(event),
            self._detail(detail),
        )

    def _detail(self, detail: dict[str, str]) -> int:
        if not detail:
            return -1
        key = tuple(detail.items())
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = len(self.details)
            self.details.append(detail)
        return known

    def _track(self, event: Event) -> int:
        if event.track[0] == "host":
            return self._place(event.track, lambda number: self._thread(event.track, number))
        # Kernels of one queue can overlap (a graph's launch, programmatic launches): such a one gets a row of its own.
        ends = self._ends.setdefault(event.track, [])
        lane = next((place for place, end in enumerate(ends) if end <= event.start), len(ends))
        if lane == len(ends):
            ends.append(0)
        ends[lane] = max(event.end, event.start)
        return self._place((event.track, lane), lambda number: self._queue(event.track, lane, number))

    def _place(self, key: object, make: Any) -> int:
        place = self._places.get(key)
        if place is None:
            place = self._places[key] = len(self._places)
            self.tracks[key] = make(next(self._numbers))
        return place

    def _thread(self, track: object, number: int) -> Track:
        main = track == self._main
        return Track(name="python" if main else f"thread {number}", kind="host", process=1, thread=number)

    def _queue(self, track: Any, lane: int, number: int) -> Track:
        _, index, stream = track
        name = f"{self._device.upper()} queue"
        if not self._recording.slow:
            name = f"{self._device.upper()} {index} stream {stream}"
        return Track(name=name + (f" ({lane + 1})" if lane else ""), kind="device", process=1, thread=number)


def _counters(recording: Recording, zero: int) -> list[Counter]:
    found = [(at - zero, size) for at, size in recording.memory if at >= zero]
    if not found:
        return []
    return [
        Counter(name="allocated_bytes", times_ns=[at for at, _ in found], values=[float(size) for _, size in found])
    ]
