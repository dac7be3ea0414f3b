"""Forward, backward and optimizer on the time line, from what was seen: calls of the model, units of backward work, and
updates of an optimizer."""

from __future__ import annotations

from collections.abc import Iterator

from mpsprobe_devices.operators.events import Event, Recording

FORWARD, BACKWARD, OPTIMIZER = "forward", "backward", "optimizer"


def phase_events(recording: Recording) -> list[Event]:
    """Phases of each complete step, on the thread of the step.

    Backward lasts from the first unit of backward work to the last one before the model is called again or an
    optimizer updates. The optimizer has the rest of its step (clipping before it, zeroing after it), as the timed
    phases have it; forward has what comes before a backward pass.
    """
    within: list[Event] = []
    for step in recording.steps():
        inside = [event for event in recording.host if step.start <= event.start < step.end and event is not step]
        within += list(_phases(step, inside))
    return within


def _phases(step: Event, inside: list[Event]) -> Iterator[Event]:
    name, start, backward_end = FORWARD, step.start, step.start
    for event in inside:
        around = event.caller
        if event.backward:
            if name != BACKWARD:
                yield _phase(step, name, start, event.start)
                name, start = BACKWARD, event.start
            backward_end = max(backward_end, event.end)
        elif event.kind == "optimizer" and name != OPTIMIZER:
            ended = backward_end if name == BACKWARD else event.start
            yield _phase(step, name, start, ended)
            name, start = OPTIMIZER, ended
        elif event.kind == "module" and event.module == 0 and around is None and name != FORWARD:
            ended = backward_end if name == BACKWARD else event.start
            yield _phase(step, name, start, ended)
            name, start = FORWARD, ended
    yield _phase(step, name, start, backward_end if name == BACKWARD else step.end)


def _phase(step: Event, name: str, start: int, end: int) -> Event:
    return Event(name, "other", step.track, start, min(max(start, end), step.end))
