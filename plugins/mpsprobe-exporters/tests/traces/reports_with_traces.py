"""Profiles for the tests of time lines: made up by hypothesis, hostile, or without some part."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from mpsprobe.schemas import Counter, ProfileReport, Trace, Track
from mpsprobe_devkit.testing import sample_profile_report

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
    sample = sample_profile_report()
    changed = sample.cells[0].model_copy(update={"trace": trace, **cell})
    return sample.model_copy(update={"cells": [changed]})


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
