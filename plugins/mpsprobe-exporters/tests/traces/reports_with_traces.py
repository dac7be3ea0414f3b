"""Profiles for the tests of time lines, and a strict reader of the "Trace Event Format" of the Chromium project.

Viewers forgive a lot by dropping events without a word; this one does not.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

from example_reports import profile_of
from hypothesis import strategies as st

from mpsprobe.schemas import Counter, ProfileReport, Trace, Track

CATEGORIES = ["step", "phase", "module", "operator", "launch", "kernel", "copy", "fallback", "other"]
STEP, OPERATOR, LAUNCH, KERNEL = (CATEGORIES.index(one) for one in ("step", "operator", "launch", "kernel"))
HOST, DEVICE = 0, 1
Row = tuple[int, int, int, int, int, int, int]  # as the columns of a trace stand


def trace_of(rows: list[Row], names: list[str] | None = None, **more: Any) -> Trace:
    """A trace with ``rows`` as they are, ordered or not; track 0 is the host's, track 1 the device's."""
    columns = ("name", "category", "track", "detail", "flow", "start_ns", "duration_ns")
    found = {
        "names": names or ["a", "b", "c"],
        "categories": CATEGORIES,
        "tracks": [Track(name="python", kind="host"), Track(name="queue", kind="device")],
        "details": [{"shapes": "[2, 3] [3]", "dtypes": "float32 float32", "bytes": "12"}],
        **{name: [row[index] for row in rows] for index, name in enumerate(columns)},
        **more,
    }
    return Trace.model_validate(found)


def report_of(trace: Trace | None, **cell: Any) -> ProfileReport:
    """The sample with one cell, which has ``trace``."""
    return profile_of(trace=trace, **cell)


def hostile_report(text: str) -> ProfileReport:
    """``text`` wherever a trace, its cell or its report takes a string."""
    detail = dict.fromkeys((text, "module", "type", "shapes", "dtypes", "bytes", "correlation"), text)
    rows: list[Row] = [
        (index % 2, index, int(CATEGORIES[index] in ("kernel", "copy")), 0, 7, index * 10, 5)
        for index in range(len(CATEGORIES))
    ]
    counters = [Counter(name=text, times_ns=[1, 2], values=[1.0, -2.5])] * 2
    tracks = [Track(name=text, kind="host"), Track(name=text, kind="device")]
    trace = trace_of(rows, [text, f"ProfilerStep#{text}"], details=[detail], counters=counters, tracks=tracks)
    report = report_of(trace, workload=text, device=text, dtype=text, autocast=text)
    workload = report.workloads[0].model_copy(update={"name": text})
    devices = [one.model_copy(update={"name": text, "type": text}) for one in report.devices]
    return report.model_copy(update={"workloads": [workload], "devices": devices, "notes": [text]})


times = st.integers(0, 40) | st.integers(0, 3000) | st.sampled_from([0, 2**40, 2**52, 2**70])
starts = times | st.integers(-(10**6), 0)


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    """Anything that the schema lets through: overlapping, unordered, of no length, joined at random."""
    row = st.tuples(
        st.integers(0, 2),
        st.integers(0, len(CATEGORIES) - 1),
        st.integers(0, 3),
        st.integers(-1, 0),
        st.integers(-1, 4) | st.sampled_from([10**6, 2**61]),
        starts,
        times,
    )
    rows = draw(st.lists(row, min_size=1, max_size=25))
    tracks = [
        Track(name="same", kind=draw(st.sampled_from(["host", "device"])), process=draw(st.integers(-1, 1)), thread=0)
        for _ in range(4)
    ]
    odd = ["ProfilerStep#1", "ProfilerStep#x", "[memory]", "Optimizer.step#A", "nccl:all_reduce", "Record Window End"]
    names = ["aten::mm", draw(st.sampled_from(odd)), "c"]
    points = draw(st.lists(st.tuples(starts, st.floats(allow_nan=False, allow_infinity=False)), max_size=4))
    curve = {"times_ns": [at for at, _ in points], "values": [value for _, value in points]}
    counters = [Counter(name=name, **curve) for name in ("allocated_bytes", "reserved_bytes", "power_mw")]
    return trace_of(rows, names, tracks=tracks, counters=counters)


# What the document asks for, by phase; ``dur`` of complete events is optional there, but always known here.
REQUIRED = {
    "X": {"name": str, "cat": str, "ts": float, "dur": float},
    "C": {"name": str, "ts": float, "args": dict},
    "i": {"name": str, "ts": float, "s": str},
    "s": {"name": str, "cat": str, "ts": float, "id": int},
    "f": {"name": str, "cat": str, "ts": float, "id": int},
    "M": {"name": str, "args": dict},
}
METADATA = {
    "process_name": ("name", str),
    "process_labels": ("labels", str),
    "process_sort_index": ("sort_index", int),
    "thread_name": ("name", str),
    "thread_sort_index": ("sort_index", int),
}
Thread = tuple[Any, Any]


def read(text: str) -> dict[str, Any]:
    """The file as an object, if it is strict JSON (no NaN, no key twice) and each event keeps to the format."""
    text.encode("utf-8")
    found = json.loads(text, parse_constant=_refused, object_pairs_hook=_once)
    assert isinstance(found["traceEvents"], list)
    for event in found["traceEvents"]:
        _check(event)
    _check_names(found["traceEvents"])
    _check_nesting(found["traceEvents"])
    _check_arrows(found["traceEvents"])
    return dict(found)


def slices(trace: dict[str, Any], category: str) -> list[dict[str, Any]]:
    """The complete events of ``category``, in the order of the file."""
    return [one for one in trace["traceEvents"] if one["ph"] == "X" and one["cat"] == category]


def nanoseconds(event: dict[str, Any]) -> tuple[int, int]:
    """Start and end."""
    return round(event["ts"] * 1000), round((event["ts"] + event.get("dur", 0)) * 1000)


def _refused(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({key for key, _ in pairs}) != len(pairs):
        raise ValueError(f"a key stands twice: {[key for key, _ in pairs]}")
    return dict(pairs)


def _check(event: dict[str, Any]) -> None:
    kind = event["ph"]
    assert kind in REQUIRED, event
    for key, wanted in REQUIRED[kind].items():
        value = event.get(key)
        allowed = (int, float) if wanted is float else wanted
        assert isinstance(value, allowed) and not isinstance(value, bool), (key, event)
    named = isinstance(event["pid"], str) and event["cat"] == "Trace"  # torch.profiler's own exception
    assert named or all(type(event[key]) is int for key in ("pid", "tid")), event
    if kind != "M":
        assert event["ts"] >= 0 and event.get("dur", 0) >= 0
    if kind == "C":
        assert event["args"]
        assert all(isinstance(one, (int, float)) and not isinstance(one, bool) for one in event["args"].values())
    if kind == "i":
        assert event["s"] in "gpt"
    if kind == "f":
        assert event["bp"] == "e"  # else the arrow points at the next event instead of this one
    if kind == "M":
        key, wanted = METADATA[event["name"]]
        assert isinstance(event["args"][key], wanted)


def _check_names(events: list[dict[str, Any]]) -> None:
    """Each process and thread with events has a name, said once and before its first event."""
    named: set[Thread] = set()
    for event in events:
        place = (event["pid"], event["tid"])
        if event["ph"] == "M" and event["name"] in ("process_name", "thread_name"):
            key = place if event["name"] == "thread_name" else (event["pid"], None)
            assert key not in named, event
            named.add(key)
        elif event["ph"] in "Xsfi" and isinstance(event["pid"], int):
            assert place in named and (event["pid"], None) in named, event


def _check_nesting(events: list[dict[str, Any]]) -> None:
    """The complete events of one thread lie in one another or apart, and stand in the order in which they begin."""
    open_ends: dict[Thread, list[int]] = {}
    latest: dict[Thread, int] = {}
    for event in events:
        if event["ph"] != "X":
            continue
        place = (event["pid"], event["tid"])
        start, end = nanoseconds(event)
        assert start >= latest.get(place, 0), event
        latest[place] = start
        ends = open_ends.setdefault(place, [])
        while ends and ends[-1] <= start:
            ends.pop()
        assert not ends or end <= ends[-1], event
        ends.append(end)


def _check_arrows(events: list[dict[str, Any]]) -> None:
    """Each arrow begins once and ends once, not before it began, and both lie in an event of their thread."""
    begun: dict[int, dict[str, Any]] = {}
    ended: set[int] = set()
    starts = {(one["pid"], one["tid"], one["ts"]) for one in events if one["ph"] == "X"}
    for event in events:
        if event["ph"] in "sf":
            assert (event["pid"], event["tid"], event["ts"]) in starts, event
        if event["ph"] == "s":
            assert event["id"] not in begun, event
            begun[event["id"]] = event
        elif event["ph"] == "f":
            assert event["id"] not in ended and event["ts"] >= begun[event["id"]]["ts"], event
            ended.add(event["id"])
    assert set(begun) == ended
