"""Operators and modules of the events of one cell: calls, and times with and without what they call.

The rules are those of ``torch.profiler``'s ``key_averages``: an event lies in the one around it on the same thread; an
operator that does nothing but call itself (an overload that calls another) is one call; what its launches take is not
its own time; a kernel belongs to the operator that launched it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from mpsprobe.importing.columns import (
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
    TrackInfo,
)

MOST_SHAPES = 8  # of an operator that are shown, the most frequent first
MOST_MODULES = 50
_CALLS = frozenset({OPERATOR, FALLBACK, STEP, PHASE, ANNOTATION, LAUNCH})  # what counts as a child of an operator
_NAMED = frozenset({OPERATOR, FALLBACK})


@dataclass(slots=True)
class Total:
    """All calls of one operator or module; times in ns."""

    calls: int = 0
    host_ns: int = 0
    self_host_ns: int = 0
    device_ns: int = 0
    self_device_ns: int = 0
    shapes: Counter[int] = field(default_factory=Counter)  # by number of the detail
    modules: dict[str, None] = field(default_factory=dict)


@dataclass(slots=True)
class Totals:
    """What all host threads come to.

    Attributes:
        operators: by number of the name.
        modules: by path, type and phase.
        overlapping: how many events lie across the end of another.
        unowned_ns: time of kernels that no operator launched.
    """

    operators: dict[int, Total] = field(default_factory=dict)
    modules: dict[tuple[str, str, str], Total] = field(default_factory=dict)
    overlapping: int = 0
    unowned_ns: int = 0


class _Frame:
    """An event that is open while its thread is walked through."""

    __slots__ = (
        "children", "children_ns", "device_ns", "duration", "end", "inner_modules_ns", "kind", "module", "name", "only",
        "operator", "self_device_ns", "total",
    )  # fmt: skip

    def __init__(self, kind: int, name: int, duration: int, end: int) -> None:
        self.kind, self.name, self.duration, self.end = kind, name, duration, end
        self.children = self.children_ns = self.inner_modules_ns = 0
        self.device_ns = self.self_device_ns = 0
        self.operator: _Frame | None = None  # the nearest around it that counts as a call
        self.module: _Frame | None = None  # the nearest module around it
        self.only: _Frame | None = None  # its last child
        self.total: Total | None = None

    def charge(self, spent: int) -> None:
        """What it started took ``spent`` ns on the device."""
        self.device_ns += spent
        self.self_device_ns += spent


def add_up(columns: Columns) -> Totals:
    """The totals of every host thread."""
    totals = Totals()
    by_flow, by_external = _device_times(columns)
    details = list(columns.details)
    for track in columns.tracks:
        if not track.device:
            _walk(columns, track, totals, (by_flow, by_external), details)
    totals.unowned_ns += sum(by_flow.values()) + sum(by_external.values())
    return totals


def _device_times(columns: Columns) -> tuple[dict[int, int], dict[int, int]]:
    """Time on the device by the number of its launch, or of its operator where no launch is in the trace."""
    launches = {flow for flow, kind in zip(columns.flow, columns.kind, strict=True) if kind == LAUNCH and flow}
    by_flow: dict[int, int] = {}
    by_external: dict[int, int] = {}
    for index, kind in enumerate(columns.kind):
        if kind in (KERNEL, COPY):
            flow = columns.flow[index]
            found, key = (by_flow, flow) if flow in launches else (by_external, columns.external[index])
            found[key] = found.get(key, 0) + columns.duration_ns[index]
    return by_flow, by_external


def _walk(
    columns: Columns,
    track: TrackInfo,
    totals: Totals,
    device: tuple[dict[int, int], dict[int, int]],
    details: list[object],
) -> None:
    by_flow, by_external = device
    stack: list[_Frame] = []
    for index in columns.in_order(track):
        kind, duration, start = columns.kind[index], columns.duration_ns[index], columns.start_ns[index]
        end = start + duration
        while stack and (start >= stack[-1].end or end > stack[-1].end):
            totals.overlapping += start < stack[-1].end
            _close(stack.pop())
        frame = _Frame(kind, columns.name[index], duration, end)
        if stack:
            above = stack[-1]
            frame.operator = above if above.kind in _CALLS else above.operator
            frame.module = above if above.kind == MODULE else above.module
        if kind == LAUNCH:
            _launched(frame, by_flow.pop(columns.flow[index], 0), totals)
        elif kind in _NAMED:
            frame.total = totals.operators.setdefault(frame.name, Total())
            _describe(frame.total, columns, index, frame.module)
            if by_external and columns.external[index]:
                spent = by_external.pop(columns.external[index], 0)
                for one in filter(None, (frame, frame.module)):
                    one.charge(spent)
        elif kind == MODULE:
            known = columns.detail_of(index, details)
            path = known.get("module", ""), known.get("type", ""), known.get("phase", "forward")
            frame.total = totals.modules.setdefault(path, Total())
            frame.total.modules.setdefault(path[0], None)
        stack.append(frame)
    while stack:
        _close(stack.pop())


def _describe(total: Total, columns: Columns, index: int, module: _Frame | None) -> None:
    if columns.detail[index] >= 0:
        total.shapes[columns.detail[index]] += 1
    if module is not None and module.total is not None and len(total.modules) < MOST_MODULES:
        total.modules |= module.total.modules


def _launched(launch: _Frame, spent: int, totals: Totals) -> None:
    """Charge the operator and the module around ``launch`` with what it started."""
    owner = launch.operator
    while owner is not None and owner.kind == LAUNCH:  # a driver's function inside the runtime's
        owner = owner.operator
    if owner is None or owner.kind not in _NAMED:
        totals.unowned_ns += spent
    else:
        owner.charge(spent)
    if launch.module is not None:
        launch.module.charge(spent)


def _close(frame: _Frame) -> None:
    around = frame.operator
    if around is not None and frame.kind in _CALLS:
        around.children += 1
        around.children_ns += frame.duration
        around.device_ns += frame.device_ns
        around.only = frame
    total = frame.total
    if total is None:
        return
    total.calls += 1
    total.host_ns += frame.duration
    total.device_ns += frame.device_ns
    total.self_device_ns += frame.self_device_ns
    if frame.kind == MODULE:
        total.self_host_ns += frame.duration - frame.inner_modules_ns
        if frame.module is not None:
            frame.module.inner_modules_ns += frame.duration
            frame.module.device_ns += frame.device_ns
        return
    total.self_host_ns += frame.duration - frame.children_ns
    only = frame.only
    if frame.children == 1 and only is not None and only.total is total:
        total.calls -= 1
        total.host_ns -= only.duration
        total.device_ns -= only.device_ns
    frame.only = None
