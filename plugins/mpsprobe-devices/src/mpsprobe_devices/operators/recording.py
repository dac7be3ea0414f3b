"""What happened while steps were recorded, in one form, whoever recorded it: torch.profiler or the slow mode."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from mpsprobe.schemas import ModuleTime
from mpsprobe_devices.traces.columns import FALLBACK, LAUNCH, MODULE, OPERATOR, OTHER, PHASE, STEP, Columns, Place
from mpsprobe_devices.traces.totals import Totals, module_times

MOST_EVENTS = 500_000
STEP_MARK, UPDATE_MARK = -1, -2
FORWARD, BACKWARD, OPTIMIZER = "forward", "backward", "optimizer"
# What is around what, where both begin and end together; kernels and copies are on tracks of their own.
_DEPTH = {STEP: 0, PHASE: 1, MODULE: 2, OTHER: 3, OPERATOR: 5, FALLBACK: 5, LAUNCH: 6}


@dataclass(slots=True, eq=False)
class Event:
    """Something with a beginning and an end, in ns of one clock within a recording."""

    name: str
    kind: int  # one of those of ``traces.columns``
    track: tuple[Any, ...]  # ``("host", thread)``, or ``("device", device, queue)``
    start: int
    end: int
    mark: int | None = None  # of a module's call its position in ``Recording.modules``; ``STEP_MARK``; ``UPDATE_MARK``
    sequence: int = -1  # number of the autograd node that an operator made, or that a backward event runs; -1 for none
    forward_thread: int = 0  # the thread that made the node which a backward event runs
    backward: bool = False  # it is a unit of work of the backward pass, with everything inside it
    owner: Event | None = None  # the operator that started a kernel or copy
    flow: int = 0  # joins what started work on the device with that work; 0 for nothing
    detail: dict[str, str] = field(default_factory=dict)

    def become(self, mark: int) -> None:
        """What a mark says: a step, an update, or a call of a module."""
        self.mark = mark
        self.kind = MODULE if mark >= 0 else STEP if mark == STEP_MARK else OTHER


@dataclass(slots=True)
class Recording:
    source: str
    host: list[Event]
    device: list[Event]
    modules: list[tuple[str, str]]  # path and class name of each, as ``named_modules`` has them
    complete_steps: int  # how many came to their end; later events belong to a step that did not
    timed_device: bool  # kernels of a device were timed (on the CPU alone there are none)
    slow: bool = False  # each operator was synchronised, so the time of a module is that of its operators
    memory: list[tuple[int, int]] = field(default_factory=list)  # times and allocated bytes
    caveats: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.host.sort(key=lambda event: (event.start, -event.end))
        # Clocks of the host and of a driver differ by less than a microsecond, yet they differ: what ends after the
        # event around it is cut to it.
        open_events: dict[object, list[Event]] = {}
        for event in self.host:
            around = open_events.setdefault(event.track, [])
            while around and around[-1].end <= event.start:
                around.pop()
            if around:
                event.end = min(event.end, around[-1].end)
            around.append(event)

    def steps(self) -> list[Event]:
        return [event for event in self.host if event.kind == STEP][: self.complete_steps]

    def totals(self, columns: Columns | None = None) -> Totals:
        """Of the complete steps. ``columns``: what ``columns()`` gave, if it was asked before."""
        steps = self.steps()
        within = (steps[0].start, steps[-1].end) if steps else (0, 0)
        return Totals(columns if columns is not None else self.columns()[0], within)

    def module_times(self, totals: Totals) -> list[ModuleTime]:
        """One entry for each module and pass, in the order of the model."""
        order = {path: number for number, (path, _) in enumerate(self.modules)}
        entries = module_times(totals, self.timed_device, self.slow)
        return sorted(entries, key=lambda entry: (order[entry.module], entry.phase != "forward"))

    def columns(self, device: str = "", most: int = MOST_EVENTS) -> tuple[Columns, dict[tuple[object, object], str]]:
        """Its events and phases, the first ``most`` for a trace, and the names of its threads and queues."""
        columns, rows = Columns(most, recorded=True), _Rows(self, device)
        numbers = {event: number for number, event in enumerate(self.steps())}
        events = [event for event in self.host if event.kind != STEP or event in numbers]
        events += [*self._phases(), *self.device]
        events.sort(key=lambda event: (event.start, -event.end, _DEPTH.get(event.kind, 9)))
        owners = {event.owner: number for number, event in enumerate(self.device, 1) if event.owner is not None}
        for event in events:
            name, detail = event.name, event.detail
            if event.kind == STEP:
                name = f"ProfilerStep#{numbers[event]}"
            elif event.kind == MODULE and event.mark is not None:
                path, kind = self.modules[event.mark]
                name, detail = f"nn.Module: {kind}", {"module": path, "type": kind}
            elif event.mark == UPDATE_MARK:
                name = "optimizer step"
            if event.sequence >= 0:
                detail = {**detail, "sequence": str(event.sequence)} | ({"pass": "backward"} if event.backward else {})
                if not event.backward:
                    columns.forward_nodes[len(columns)] = int(event.track[1]), event.sequence
            if event.backward:
                columns.backward_nodes[len(columns)] = event.forward_thread, event.sequence
            external = owners.get(event.owner or event, 0)
            times = event.start, max(0, event.end - event.start)
            columns.add(event.kind, name, rows.place(event), times, tuple(detail.items()), event.flow, external)
        begin = events[0].start if events else 0
        for at, size in self.memory:
            if at >= begin:
                columns.count("allocated_bytes", at, size)
        return columns, rows.names

    def _phases(self) -> Iterator[Event]:
        """Forward, backward and optimizer of each complete step, on the thread of the step.

        Backward lasts from the first unit of backward work to the last one before the model is called again or an
        optimizer updates. The optimizer has the rest of its step (clipping before it, zeroing after it), as the timed
        phases have it; forward has what comes before a backward pass.
        """
        begins: dict[int | None, str] = {UPDATE_MARK: OPTIMIZER, 0: FORWARD}  # by mark; 0: the model itself
        for step in self.steps():

            def phase(name: str, start: int, end: int, step: Event = step) -> Event:
                return Event(name, PHASE, step.track, start, min(max(start, end), step.end))

            name, start, backward_end = FORWARD, step.start, step.start
            for event in self.host:
                if event is step or not step.start <= event.start < step.end:
                    continue
                following = BACKWARD if event.backward else begins.get(event.mark, name)
                if following != name:
                    ended = backward_end if name == BACKWARD else event.start
                    yield phase(name, start, ended)
                    name, start = following, ended
                if event.backward:
                    backward_end = max(backward_end, event.end)
            yield phase(name, start, backward_end if name == BACKWARD else step.end)


class _Rows:
    """Where events are shown: a row for each thread, and for each queue."""

    def __init__(self, recording: Recording, device: str) -> None:
        self.names: dict[tuple[object, object], str] = {}
        self._device, self._slow = device.upper(), recording.slow
        self._main = next((event.track for event in recording.host if event.kind == STEP), None)
        self._ends: dict[object, list[int]] = {}

    def place(self, event: Event) -> Place:
        if event.track[0] == "host":
            name = "python" if event.track == self._main else f"thread {len(self.names) + 1}"
            self.names.setdefault((1, event.track), name)
            return 1, event.track, False
        # Kernels of one queue can overlap (a graph's launch, programmatic launches): such a one gets a row of its own.
        ends = self._ends.setdefault(event.track, [])
        lane = next((place for place, end in enumerate(ends) if end <= event.start), len(ends))
        if lane == len(ends):
            ends.append(0)
        ends[lane] = max(event.end, event.start)
        _, index, stream = event.track
        name = f"{self._device} queue" if self._slow else f"{self._device} {index} stream {stream}"
        self.names.setdefault((1, (event.track, lane)), name + (f" ({lane + 1})" if lane else ""))
        return 1, (event.track, lane), True
