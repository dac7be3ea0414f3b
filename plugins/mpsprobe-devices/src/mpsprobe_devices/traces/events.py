"""What each event of a trace file is: ``cat``, ``name`` and ``args`` as torch.profiler's releases wrote them."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from mpsprobe_devices.traces.columns import (
    ANNOTATION,
    COPY,
    FALLBACK,
    KERNEL,
    LAUNCH,
    MODULE,
    MOST_ROWS,
    OPERATOR,
    OTHER,
    PHASE,
    STEP,
    TOO_MANY_ROWS,
    Columns,
    Detail,
    cleaned,
)

STEP_NAME = re.compile(r"ProfilerStep#\d+", re.ASCII)
PHASES = frozenset({"forward", "backward", "optimizer"})
MODULE_PREFIX = "nn.Module: "
LATEST_US = 2**62 / 1000
EXACT_US = 2.0**40  # below, start + duration are exact enough as doubles to give the end to the ns
KINDS = {
    "cpu_op": OPERATOR, "operator": OPERATOR, "fallback": FALLBACK, "kernel": KERNEL, "gpu_memcpy": COPY,
    "memcpy": COPY, "gpu_memset": COPY, "memset": COPY, "user_annotation": ANNOTATION, "phase": PHASE,
    "python_function": OTHER,
}  # fmt: skip
LAUNCHES = re.compile(r"(?:(cuda|xpu|mtia|hpu|privateuse1)_)?(?:runtime|driver)")
TIMED_STEP = "timed_step"
NOT_OF_THE_RUN = frozenset({"trace", TIMED_STEP, "phase_median"})
# Facts of a kernel or copy that are kept, as torch.profiler calls them.
FACTS = (
    "grid", "block", "registers per thread", "shared memory", "blocks per SM", "est. achieved occupancy %",
)  # fmt: skip
OWN_DETAILS = ("module", "type", "phase", "shapes", "dtypes", "sequence", "verdict", "bytes", "stack")
INPUTS = frozenset({*OWN_DETAILS, "Input Dims", "Input dims", "Input type"})
CPU = 0  # the `Device Type` whose curves of memory are named so; every other one is the device's own
NO_NUMBER = "without a time that is a number"
MOST_EVENTS = 4_000_000  # 1 GB of text as torch.profiler writes it, a minute; some 100 bytes of memory for each


class Reader:
    """Sorts events into the columns of their cell, those of their process; ``None`` for one that is not wanted."""

    def __init__(self, columns_of: Callable[[object], Columns | None]) -> None:
        self.launched_by: Counter[str] = Counter()  # how often each kind of launch occurred (``cuda``, ``xpu``, …)
        self.skipped: Counter[str] = Counter()  # how many events could not be used, by reason
        self.names: dict[tuple[object, object], str] = {}  # of threads, by process and thread
        # Lengths of timed steps in a file of ``mpsprobe export``, and whether each is an outlier; by the file's process
        # and thread.
        self.timed: dict[object, dict[object, list[tuple[int, bool]]]] = {}
        self.events = self._all = self._timed_rows = 0
        self._columns_of = columns_of

    def read(self, event: Any) -> bool:
        """Take ``event`` in, whatever it is; whether there may be more."""
        self._all += 1
        self._read(event)
        return self._all < MOST_EVENTS

    def _read(self, event: Any) -> None:
        if not isinstance(event, dict):
            self.skipped["that are no objects"] += 1
            return
        phase = event.get("ph")
        self.events += phase != "M"
        if phase == "X":
            self._slice(event)
        elif phase == "C":
            self._counter(event)
        elif phase in ("i", "I") and event.get("name") == "[memory]":
            self._memory(event)
        elif phase == "M" and event.get("name") == "thread_name" and isinstance(event.get("args"), dict):
            # Of several the last one: torch.profiler tells a thread's own name after the process's.
            self.names[_place(event)] = cleaned(str(event["args"].get("name", "")))
            if len(self.names) > MOST_ROWS:
                self.names.popitem()

    def _slice(self, event: Mapping[str, Any]) -> None:
        times = _times(event.get("ts"), event.get("dur", 0))
        if times is None:
            self.skipped[NO_NUMBER] += 1
            return
        if times[1] < 0:
            self.skipped["of a negative duration"] += 1
            return
        category = event.get("cat")
        kind = _kind(category[:64]) if isinstance(category, str) else OTHER
        args = _args(event)
        if kind is None or "placeholder" in args:  # which the exporter ``tensorboard`` writes for its reader's sake
            if category == TIMED_STEP:
                self._timed_step(event, times[1], args.get("outlier") == "yes")
            return
        columns = self._columns_of(event.get("pid"))
        if columns is None:
            return
        name = event.get("name")
        name = cleaned(name) if isinstance(name, str) else "(no name)"
        if kind in (OPERATOR, ANNOTATION, OTHER):
            kind = _closer(kind, category, name, args)
            if kind is None:
                if columns.full:  # of Python's own functions no total is made
                    columns.frames += 1
                    return
                kind = OTHER
        flow = external = 0
        detail: Detail = ()
        device = kind in (KERNEL, COPY)
        if device or kind in (LAUNCH, OPERATOR, FALLBACK):
            external = _identity(args.get("External id", args.get("external id")))
        if device or kind == LAUNCH:
            flow = _identity(args.get("correlation"))
        if kind == LAUNCH:
            self.launched_by[LAUNCHES.fullmatch(str(category).lower()).group(1) or "gpu"] += 1  # type: ignore[union-attr]
        elif kind == MODULE:
            detail = _module(name, args)
        elif not columns.full:
            detail = _facts(args, str(category)) if device else _inputs(args) if kind in (OPERATOR, FALLBACK) else ()
        thread: object = event.get("tid")
        if category == "gpu_user_annotation":  # they lie across kernels, so they get rows of their own
            device, thread = True, ("annotations", _key(thread))
        place = (_key(event.get("pid")), _key(thread), device)
        self._skip(columns.add(kind, name, place, times, detail, flow, external))

    def _timed_step(self, event: Mapping[str, Any], duration: int, outlier: bool) -> None:
        process, thread = _place(event)
        if thread not in self.timed.get(process, ()):
            if self._timed_rows == MOST_ROWS:
                self.skipped[TOO_MANY_ROWS] += 1
                return
            self._timed_rows += 1
        self.timed.setdefault(process, {}).setdefault(thread, []).append((duration, outlier))

    def _skip(self, reason: str | None) -> None:
        if reason is not None:
            self.skipped[reason] += 1

    def _counter(self, event: Mapping[str, Any]) -> None:
        columns, at = self._columns_of(event.get("pid")), _times(event.get("ts"), 0)
        if columns is None or not isinstance(event.get("name"), str):
            return
        for key, given in _args(event).items():
            value = _number(given)
            if at is None or value is None:
                self.skipped[NO_NUMBER] += 1
                continue
            name = cleaned(event["name"] if key == "value" else f"{event['name']}: {key}")
            self._skip(columns.count(name, at[0], value))

    def _memory(self, event: Mapping[str, Any]) -> None:
        columns, at, args = self._columns_of(event.get("pid")), _times(event.get("ts"), 0), _args(event)
        if columns is None or at is None:
            return
        prefix = "cpu_" if args.get("Device Type") == CPU else ""
        index = args.get("Device Id")
        suffix = f" of device {index}" if isinstance(index, int) and index > 0 else ""
        for key, name in (("Total Allocated", "allocated_bytes"), ("Total Reserved", "reserved_bytes")):
            value = _number(args.get(key))
            if value is not None and value >= 0:
                self._skip(columns.count(f"[memory] {prefix}{name}{suffix}", at[0], value))


@lru_cache
def _kind(category: str) -> int | None:
    category = category.lower()
    if category in NOT_OF_THE_RUN:
        return None
    return LAUNCH if LAUNCHES.fullmatch(category) else KINDS.get(category, OTHER)


def _closer(kind: int, category: object, name: str, args: Mapping[str, Any]) -> int | None:
    """What an event is by its name too; ``None`` for a function of Python."""
    if kind == OTHER:
        if category != "python_function":
            return OTHER
        return MODULE if args.get("Python module id") is not None or "module" in args else None
    if STEP_NAME.fullmatch(name):
        return STEP
    if kind == ANNOTATION:
        return PHASE if name in PHASES else ANNOTATION
    return FALLBACK if "verdict" in args else OPERATOR


def _times(ts: object, duration: object) -> tuple[int, int] | None:
    """Start and duration in ns, from microseconds."""
    first = ts if type(ts) is int or type(ts) is float else _number(ts)
    spent = duration if type(duration) is int or type(duration) is float else _number(duration)
    if first is None or spent is None or not (abs(first) <= LATEST_US and abs(spent) <= LATEST_US):  # also of nan
        return None
    start = first * 1000 if isinstance(first, int) else round(first * 1000)
    if abs(first) < EXACT_US and spent < EXACT_US:
        return start, round((first + spent) * 1000) - start
    return start, round(spent * 1000)


def _number(value: object) -> int | float | None:
    """``value`` as a number that a float can hold, also where it is written as text."""
    if isinstance(value, bool):
        return None
    try:
        number = float(value) if isinstance(value, str) else value
        return number if isinstance(number, (int, float)) and math.isfinite(number) else None
    except (ValueError, OverflowError):
        return None


def _identity(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**62 else 0


def _args(event: Mapping[str, Any]) -> dict[str, Any]:
    args = event.get("args")
    return args if isinstance(args, dict) else {}


def _place(event: Mapping[str, Any]) -> tuple[object, object]:
    return _key(event.get("pid")), _key(event.get("tid"))


def _key(value: object) -> object:
    """What can be a key and a name, and is no two keys in one: true is not 1."""
    if type(value) in (int, tuple):
        return value
    return cleaned(value) if isinstance(value, str) else repr(value)


def _inputs(args: Mapping[str, Any]) -> Detail:
    if INPUTS.isdisjoint(args):
        return ()
    detail = {key: args[key] for key in OWN_DETAILS if isinstance(args.get(key), str)}
    shapes, types = args.get("Input Dims", args.get("Input dims")), args.get("Input type")
    if isinstance(shapes, list) and "shapes" not in args and shapes:
        detail["shapes"] = " ".join(map(str, shapes))
    if isinstance(types, list) and "dtypes" not in args and types:
        detail["dtypes"] = " ".join(str(dtype).replace(" ", "_") or "-" for dtype in types)
    return tuple((key, cleaned(value)) for key, value in detail.items())


def _module(name: str, args: Mapping[str, Any]) -> Detail:
    own = {key: cleaned(args[key]) for key in ("module", "type", "phase") if isinstance(args.get(key), str)}
    if "module" not in own:
        own["module"] = name.removeprefix(MODULE_PREFIX)
    if "type" not in own:
        own["type"] = re.sub(r"_\d+$", "", name.removeprefix(MODULE_PREFIX))
    return tuple(own.items())


def _facts(args: Mapping[str, Any], category: str) -> Detail:
    facts = [(key, cleaned(str(args[key]))) for key in FACTS if key in args]
    size = args.get("bytes", args.get("Bytes"))
    facts += [("bytes", str(size))] if isinstance(size, (int, str)) and str(size).isdecimal() else []
    facts += [("copy", "memset")] if category.lower().endswith("memset") else []
    return tuple(facts)
