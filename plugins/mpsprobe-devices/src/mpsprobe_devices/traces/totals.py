"""Operators, modules and fallbacks of the events of one cell: calls, and times with and without what they call.

The rules are those of ``key_averages`` (``torch/autograd/profiler_util.py``, read in 2.13):

- An event lies in the one around it on the same thread; one that ends after that one lies next to it
  (``EventList._populate_cpu_children``).
- An operator that does nothing but call itself (an overload that calls another) is one call
  (``EventList._remove_dup_nodes``). Any other call within itself is a call like others, and its time counts in both
  (``FunctionEventAvg.add``).
- What its launches take is not an operator's own time: they are events too (``FunctionEvent.self_cpu_time_total``).
- A kernel belongs to the operator that started it.

Of modules torch has no such table. Here one that calls itself has its time once. Its backward pass are the units of
backward work (with all that is inside) that run the nodes which operators of its calls made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mpsprobe.schemas import FallbackCost, ModuleTime, OperatorTime
from mpsprobe_devices.traces.columns import (
    ANNOTATION,
    COPY,
    FALLBACK,
    KERNEL,
    LAUNCH,
    MODULE,
    OPERATOR,
    PHASE,
    STEP,
    Columns,
    Detail,
    Node,
    TrackInfo,
)

SHOWN = 20  # shapes and modules of an operator, the most frequent first
_CALLS = frozenset({OPERATOR, FALLBACK, STEP, ANNOTATION, LAUNCH})  # what counts as a child of an operator
_NAMED = frozenset({OPERATOR, FALLBACK})
FOREVER = (-(2**63), 2**63)


@dataclass(slots=True)
class Total:
    """All calls of one operator or module; times in ns."""

    calls: int = 0
    host_ns: int = 0
    self_host_ns: int = 0
    device_ns: int = 0
    self_device_ns: int = 0
    details: Counter[int] = field(default_factory=Counter)  # how often each occurred, by its number
    modules: Counter[str] = field(default_factory=Counter)  # how often the operator was called in each
    around: int = 0  # calls of the module that are open while its thread is walked through


@dataclass(slots=True, eq=False)
class _Frame:
    """An event that is open while its thread is walked through."""

    kind: int
    duration: int
    end: int
    operator: _Frame | None = None  # the nearest around it that counts as a call
    module: _Frame | None = None  # the nearest around it
    unit: _Frame | None = None  # the outermost unit of backward work around it; a unit's own is itself
    only: _Frame | None = None  # its last child
    total: Total | None = None
    path: tuple[str, str] = ("", "")  # of a module, with its type
    children: int = 0
    children_ns: int = 0
    inner_modules_ns: int = 0
    device_ns: int = 0
    self_device_ns: int = 0


class Totals:
    """What all host threads come to, of the events that begin ``within`` these two times."""

    def __init__(self, columns: Columns, within: tuple[int, int] = FOREVER) -> None:
        self.operators: dict[str, Total] = {}
        self.modules: dict[tuple[str, str, str], Total] = {}  # by path, type and phase
        self.fallbacks: dict[str, list[tuple[int, Mapping[str, str]]]] = {}  # duration and detail of each
        self.overlapping = 0  # events that lie across the end of another
        self.unowned_ns = 0  # of kernels that no operator started
        self.details: list[Detail] = list(columns.details)
        self._columns, self._within = columns, within
        self._names = list(columns.names)
        self._makers: dict[Node, _Frame] = {}  # modules, by the nodes that their operators made
        self._units: list[tuple[Node, _Frame]] = []
        self._by_flow, self._by_external = self._device_times()
        for track in columns.tracks:
            if not track.device:
                self._walk(track)
        self.unowned_ns += sum(self._by_flow.values()) + sum(self._by_external.values())
        self._backward()

    def seen(self, operator: str) -> tuple[list[str], list[str]]:
        """Shapes and modules that calls of ``operator`` had. Where the trace has no modules, its details may."""
        total = self.operators.get(operator, Total())
        shapes, scopes = Counter[str](), Counter[str]()
        for number, calls in total.details.items():
            detail = dict(self.details[number])
            shapes[detail.get("shapes", "")] += calls
            scopes[detail.get("module", "")] += calls
        del shapes[""], scopes[""]
        return _most_common(shapes), _most_common(total.modules or scopes)

    def _device_times(self) -> tuple[dict[int, int], dict[int, int]]:
        """Time on the device by the number of its launch, or of its operator where no launch is in the trace."""
        columns, launches = self._columns, set()
        if not columns.recorded:
            launches = {flow for flow, kind in zip(columns.flow, columns.kind, strict=True) if kind == LAUNCH and flow}
        by_flow, by_external = Counter[int](), Counter[int]()
        for index, kind in enumerate(columns.kind):
            if kind in (KERNEL, COPY):
                if columns.flow[index] in launches:
                    by_flow[columns.flow[index]] += columns.duration_ns[index]
                else:
                    by_external[columns.external[index]] += columns.duration_ns[index]
        return by_flow, by_external

    def _walk(self, track: TrackInfo) -> None:
        columns, (begin, end_of_all) = self._columns, self._within
        stack: list[_Frame] = []
        for index in columns.in_order(track):
            kind, duration, start = columns.kind[index], columns.duration_ns[index], columns.start_ns[index]
            if kind == PHASE or not begin <= start < end_of_all:
                continue
            end = start + duration
            while stack and (start >= stack[-1].end or end > stack[-1].end):
                self.overlapping += start < stack[-1].end
                _close(stack.pop())
            frame = _Frame(kind, duration, end)
            if stack:
                above = stack[-1]
                frame.operator = above if above.kind in _CALLS else above.operator
                frame.module = above if above.kind == MODULE else above.module
                frame.unit = above.unit
            stack.append(frame)
            if index in columns.backward_nodes and frame.unit is None:
                frame.unit = frame
                self._units.append((columns.backward_nodes[index], frame))
            if kind == LAUNCH:
                self._launched(frame, self._by_flow.pop(columns.flow[index], 0))
            elif kind in _NAMED:
                self._named(frame, index)
            elif kind == MODULE:
                detail = columns.described(index, self.details)
                frame.path = detail.get("module", ""), detail.get("type", "")
                frame.total = self.modules.setdefault((*frame.path, detail.get("phase", "forward")), Total())
                frame.total.around += 1
        while stack:
            _close(stack.pop())

    def _named(self, frame: _Frame, index: int) -> None:
        columns, module = self._columns, frame.module
        name = self._names[columns.name[index]]
        frame.total = total = self.operators.setdefault(name, Total())
        if columns.detail[index] >= 0:
            total.details[columns.detail[index]] += 1
        if module is not None:
            total.modules[module.path[0]] += 1
            if frame.unit is None and index in columns.forward_nodes:
                self._makers[columns.forward_nodes[index]] = module
        if frame.kind == FALLBACK:
            detail = columns.described(index, self.details)
            self.fallbacks.setdefault(detail.get("fallback", name), []).append((frame.duration, detail))
        if columns.external[index] in self._by_external and columns.external[index]:
            spent = self._by_external.pop(columns.external[index])
            self._charge(frame, spent, frame)

    def _launched(self, launch: _Frame, spent: int) -> None:
        """Charge the operator and the module around ``launch`` with what it started."""
        owner = launch.operator
        while owner is not None and owner.kind == LAUNCH:  # a driver's function inside the runtime's
            owner = owner.operator
        self._charge(launch, spent, owner if owner is not None and owner.kind in _NAMED else None)

    def _charge(self, place: _Frame, spent: int, operator: _Frame | None) -> None:
        """Charge ``operator`` and the module around ``place``; in a backward pass that is its unit's, later."""
        if operator is None:
            self.unowned_ns += spent
        for frame in (operator, place.module if place.unit is None else None):
            if frame is not None:
                frame.device_ns += spent
                frame.self_device_ns += spent

    def _backward(self) -> None:
        calls: dict[tuple[str, str], set[_Frame]] = {}
        for node, unit in self._units:
            module = self._makers.get(node)
            paths: set[tuple[str, str]] = set()
            while module is not None:
                total = self.modules.setdefault((*module.path, "backward"), Total())
                calls.setdefault(module.path, set()).add(module)
                if not paths:
                    total.self_host_ns += unit.duration
                    total.self_device_ns += unit.device_ns
                if module.path not in paths:
                    total.host_ns += unit.duration
                    total.device_ns += unit.device_ns
                paths.add(module.path)
                module = module.module
        for path, modules in calls.items():
            self.modules[(*path, "backward")].calls = len(modules)


def _close(frame: _Frame) -> None:
    around, total = frame.operator, frame.total
    if around is not None and frame.kind in _CALLS:
        around.children += 1
        around.children_ns += frame.duration
        around.device_ns += frame.device_ns
        around.only = frame
    if total is None:
        return
    total.calls += 1
    total.self_device_ns += frame.self_device_ns
    if frame.kind == MODULE:
        total.self_host_ns += frame.duration - frame.inner_modules_ns
        if frame.module is not None:
            frame.module.inner_modules_ns += frame.duration
            frame.module.device_ns += frame.device_ns
        total.around -= 1
        if total.around:
            return
    total.host_ns += frame.duration
    total.device_ns += frame.device_ns
    if frame.kind == MODULE:
        return
    total.self_host_ns += frame.duration - frame.children_ns
    only = frame.only
    if frame.children == 1 and only is not None and only.total is total:
        total.calls -= 1
        total.host_ns -= only.duration
        total.device_ns -= only.device_ns
    frame.only = None


def operator_times(totals: Totals, source: str, on_device: bool, described: Totals | None = None) -> list[OperatorTime]:
    """One entry for each operator, the one that takes longest by itself first; shapes and modules of ``described``."""
    described = described or totals
    entries = []
    for name, total in totals.operators.items():
        shapes, modules = described.seen(name)
        entries.append(
            OperatorTime(
                operator=name,
                calls=total.calls,
                **_times(total, on_device),
                shapes=shapes,
                modules=modules,
                source=source,
            )
        )
    return sorted(entries, key=lambda entry: (-(entry.self_device_ns or 0), -entry.self_host_ns, entry.operator))


def module_times(totals: Totals, on_device: bool, slow: bool = False) -> list[ModuleTime]:
    """One entry for each module and pass, the longest first. ``slow``: the host's time is the device's."""
    entries = []
    for (path, kind, phase), total in totals.modules.items():
        if slow:
            total.host_ns, total.self_host_ns = total.device_ns, total.self_device_ns
        times = _times(total, on_device)
        entries.append(ModuleTime(module=path, type=kind, calls=total.calls, **times, phase=phase))
    return sorted(entries, key=lambda entry: -entry.host_ns)


def _times(total: Total, on_device: bool) -> dict[str, Any]:
    # Of events that lie across each other the parts can be longer than the whole.
    host = {"host_ns": total.host_ns, "self_host_ns": max(total.self_host_ns, 0)}
    return host | ({"device_ns": total.device_ns, "self_device_ns": total.self_device_ns} if on_device else {})


def fallback_costs(totals: Totals, steps: int) -> list[FallbackCost]:
    """What the operators of one step cost that fell back, by operator; the dearest first."""
    costs = []
    for operator, calls in totals.fallbacks.items():
        sizes = [_size(detail["bytes"]) for _, detail in calls if "bytes" in detail]
        costs.append(
            FallbackCost(
                operator=operator,
                calls=max(1, round(len(calls) / steps)),
                method="observed",
                verdict=calls[0][1].get("verdict", "fallback"),
                duration_ns=round(sum(spent for spent, _ in calls) / steps),
                bytes=round(sum(sizes) / steps) if sizes else None,
            )
        )
    return sorted(costs, key=lambda cost: (-(cost.duration_ns or 0), cost.operator))


def _most_common(counted: Counter[str]) -> list[str]:
    return [text for text, _ in counted.most_common(SHOWN)]


def _size(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 19 else 0
