"""Sums over the complete steps of a recording: per operator, and per module."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from mpsprobe.schemas import ModuleTime, OperatorTime
from mpsprobe_devices.operators.events import OPERATORS, Event, Recording

MAX_LISTED = 20  # shapes and modules of one operator, the most frequent first
Pass = str


@dataclass(slots=True)
class _Sum:
    calls: int = 0
    host: int = 0
    self_host: int = 0
    device: int = 0
    self_device: int = 0
    shapes: Counter[str] = field(default_factory=Counter)
    modules: Counter[str] = field(default_factory=Counter)
    of: set[Event] = field(default_factory=set)


def operator_times(recording: Recording, described: Recording | None = None) -> list[OperatorTime]:
    """One entry for each operator, the one that takes longest by itself first.

    Args:
        described: where shapes and modules are from; ``recording`` unless given.

    Each call counts. A call inside a call of the same operator adds no time to the total: it is in there already.
    """
    events = [event for event in recording.of_complete_steps() if event.kind in OPERATORS]
    device = {event: event.own_device_ns for event in events}
    inner: dict[Event, int] = dict.fromkeys(events, 0)
    for event in reversed(events):  # what is inside comes after what is around it
        around = event.operator
        if around is not None and around in device:
            device[around] += device[event]
            inner[around] += event.duration
    sums: dict[str, _Sum] = {}
    for event in events:
        found = sums.setdefault(event.name, _Sum())
        found.calls += 1
        found.self_host += max(0, event.duration - inner[event])
        found.self_device += event.own_device_ns
        if not _inside_itself(event):
            found.host += event.duration
            found.device += device[event]
    _describe(sums, described or recording)
    timed = recording.timed_device
    entries = [
        OperatorTime(
            operator=name,
            calls=found.calls,
            host_ns=found.host,
            self_host_ns=found.self_host,
            device_ns=found.device if timed else None,
            self_device_ns=found.self_device if timed else None,
            shapes=_most_common(found.shapes),
            modules=_most_common(found.modules),
            source=recording.source,
        )
        for name, found in sums.items()
    ]
    return sorted(entries, key=lambda entry: (-(entry.self_device_ns or 0), -entry.self_host_ns, entry.operator))


def _describe(sums: dict[str, _Sum], recording: Recording) -> None:
    """Add shapes and modules of the operators that are in ``sums``."""
    for event in recording.of_complete_steps():
        found = sums.get(event.name)
        if event.kind not in OPERATORS or found is None:
            continue
        if event.shapes:
            found.shapes[event.shapes] += 1
        module = event.caller.module if event.caller is not None else -1
        if module >= 0:
            found.modules[recording.modules[module][0]] += 1


def module_times(recording: Recording) -> list[ModuleTime]:
    """One entry for each module and pass, in the order of the model.

    The backward pass of a module is that of the autograd nodes which its calls made, found by their sequence numbers;
    gradients that are added up at the end of a backward pass belong to no module.
    """
    events = recording.of_complete_steps()
    calls: dict[tuple[Event, Pass], _Sum] = {}
    makers: dict[tuple[int, int], Event] = {}
    for event in events:
        if event.kind == "module":
            found = calls.setdefault((event, "forward"), _Sum())
            found.self_host += event.duration
            found.host += event.duration
            if event.caller is not None and (event.caller, "forward") in calls:
                calls[event.caller, "forward"].self_host -= event.duration
        caller = event.caller
        if caller is not None and (caller, "forward") in calls and event.unit is None and not event.backward:
            calls[caller, "forward"].self_device += event.own_device_ns
            if event.sequence >= 0 and event.kind in OPERATORS:
                makers[int(event.track[1]), event.sequence] = caller
    units = _units(events)
    for unit, (host, device) in units.items():
        maker = makers.get((unit.forward_thread, unit.sequence))
        if maker is not None:
            found = calls.setdefault((maker, "backward"), _Sum())
            found.self_host += host
            found.self_device += device
    return _by_module(recording, calls)


def _units(events: list[Event]) -> dict[Event, tuple[int, int]]:
    """Time on the host and on the device of each unit of backward work, with everything inside it."""
    units = {event: [event.duration, event.own_device_ns] for event in events if event.backward and event.unit is None}
    for event in events:
        unit = event.unit
        while unit is not None and unit.unit is not None:
            unit = unit.unit
        if unit is not None and unit in units:
            units[unit][1] += event.own_device_ns
    return {unit: (host, device) for unit, (host, device) in units.items()}


def _by_module(recording: Recording, calls: dict[tuple[Event, Pass], _Sum]) -> list[ModuleTime]:
    sums: dict[tuple[int, Pass], _Sum] = {}
    for (call, way), own in calls.items():
        host, device = max(0, own.self_host), own.self_device
        if recording.slow:
            host = device
        found = sums.setdefault((call.module, way), _Sum())
        found.self_host += host
        found.self_device += device
        around: Event | None = call
        seen: set[int] = set()
        while around is not None:
            total = sums.setdefault((around.module, way), _Sum())
            total.of.add(around)
            if around.module not in seen:  # a module that calls itself holds its own time once
                seen.add(around.module)
                total.host += host
                total.device += device
            around = around.caller
    timed = recording.timed_device
    entries = []
    for (number, way), found in sorted(sums.items(), key=lambda item: (item[0][0], item[0][1] != "forward")):
        path, kind = recording.modules[number]
        entries.append(
            ModuleTime(
                module=path,
                type=kind,
                calls=len(found.of),
                host_ns=found.host,
                self_host_ns=found.self_host,
                device_ns=found.device if timed else None,
                self_device_ns=found.self_device if timed else None,
                phase=way,
            )
        )
    return entries


def _inside_itself(event: Event) -> bool:
    around = event.operator
    while around is not None:
        if around.name == event.name:
            return True
        around = around.operator
    return False


def _most_common(counted: Counter[str]) -> list[str]:
    return [name for name, _ in counted.most_common(MAX_LISTED)]
