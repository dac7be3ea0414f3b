"""What happened while steps were recorded, in one form, whoever recorded it: torch.profiler or the slow mode.

Times are in ns, of one clock within a recording. Events of the host nest within their thread; who is inside whom is
worked out here once, and every figure is made from that.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["step", "module", "optimizer", "operator", "launch", "kernel", "copy", "fallback", "other"]
HostTrack = tuple[Literal["host"], int]
DeviceTrack = tuple[Literal["device"], int, int]
OPERATORS: tuple[Kind, ...] = ("operator", "fallback")


@dataclass(slots=True, eq=False)
class Event:
    """Something with a beginning and an end.

    Attributes:
        track: the thread of the host, or device and queue.
        module: position in ``Recording.modules``, of a module's call.
        sequence: number of the autograd node that an operator made, or that a backward event runs; -1 for none.
        forward_thread: the thread that made the node which a backward event runs.
        backward: it is a unit of work of the backward pass, with everything inside it.
        own_device_ns: what the device spent on it, without what it calls; kernels are counted at the operator that
            started them.
        flow: joins what started work on the device with that work; 0 for nothing.
        parent, operator, caller, unit: the nearest event around it; operator; call of a module; unit of backward work.
    """

    name: str
    kind: Kind
    track: HostTrack | DeviceTrack
    start: int
    end: int
    module: int = -1
    sequence: int = -1
    forward_thread: int = 0
    backward: bool = False
    own_device_ns: int = 0
    flow: int = 0
    shapes: str = ""
    dtypes: str = ""
    detail: dict[str, str] | None = None
    parent: Event | None = None
    operator: Event | None = None
    caller: Event | None = None
    unit: Event | None = None

    @property
    def duration(self) -> int:
        """Ns; never below 0."""
        return max(0, self.end - self.start)


@dataclass(slots=True)
class Recording:
    """Everything that was recorded.

    Attributes:
        modules: path and class name of each module, as ``named_modules`` has them.
        complete_steps: how many steps came to their end; later events belong to a step that did not.
        timed_device: kernels of a device were timed (on the CPU alone there are none).
        slow: each operator was synchronised, so the time of a module is that of its operators.
        memory: times and allocated bytes.
    """

    source: str
    host: list[Event]
    device: list[Event]
    modules: list[tuple[str, str]]
    complete_steps: int
    timed_device: bool
    slow: bool = False
    memory: list[tuple[int, int]] = field(default_factory=list)
    caveats: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.host.sort(key=lambda event: (event.start, -event.end))
        self.device.sort(key=lambda event: (event.start, -event.end))
        nest(self.host)
        kept = without_repeats(self.host)
        if len(kept) != len(self.host):
            self.host = kept
            nest(kept)

    def steps(self) -> list[Event]:
        """Those that came to their end."""
        return [event for event in self.host if event.kind == "step"][: self.complete_steps]

    def of_complete_steps(self) -> list[Event]:
        """Events of the host that began within a complete step, the steps themselves left out."""
        steps = self.steps()
        if not steps:
            return []
        begin, end = steps[0].start, steps[-1].end
        return [event for event in self.host if event.kind != "step" and begin <= event.start < end]


def nest(events: Iterable[Event]) -> None:
    """Find what is around each of ``events``, which are ordered by start, the longer first.

    Clocks of the host and of a driver differ by less than a microsecond, yet they differ: what ends after the event
    around it is cut to it.
    """
    open_events: dict[object, list[Event]] = {}
    for event in events:
        around = open_events.setdefault(event.track, [])
        while around and around[-1].end <= event.start:
            around.pop()
        event.parent = event.operator = event.caller = event.unit = None
        if around:
            parent = around[-1]
            event.end = min(event.end, parent.end)
            event.parent = parent
            event.operator = parent if parent.kind in OPERATORS else parent.operator
            event.caller = parent if parent.kind == "module" else parent.caller
            event.unit = parent if parent.backward else parent.unit
        around.append(event)


def without_repeats(events: list[Event]) -> list[Event]:
    """``events`` without operators that are all that an operator of the same name does: an overload calls another.

    torch.profiler counts such two as one, too.
    """
    inside: dict[Event, int] = {}
    for event in events:
        if event.parent is not None:
            inside[event.parent] = inside.get(event.parent, 0) + 1
    merged: dict[Event, Event] = {}
    kept = []
    for event in events:
        parent = event.parent if event.parent is None else merged.get(event.parent, event.parent)
        same = (
            parent is not None and event.kind == "operator" and (parent.name, parent.kind) == (event.name, event.kind)
        )
        if parent is None or not same or inside[parent] != 1:
            kept.append(event)
            continue
        merged[event] = parent
        inside[parent] = inside.get(event, 0)
        parent.own_device_ns += event.own_device_ns
    return kept
