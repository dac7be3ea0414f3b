"""A strict reader of the trace event format, after the document "Trace Event Format" of the Chromium project.

Viewers forgive a lot by dropping events without a word; this one does not.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

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
    """The file as an object.

    Raises:
        ValueError: it is no strict JSON: a NaN, or a key twice in one object.
        AssertionError: an event breaks a rule of the format.
    """
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
