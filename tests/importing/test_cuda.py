"""A trace of a real GPU: three training steps on an NVIDIA H200, torch 2.11.0, CUDA 13.0, written on 2026-11-21.

Next to it is what ``key_averages`` said about the same run: calls, then µs on the host, own ones, on the device, own
ones. Frames of Python's own functions were taken out of the file.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mpsprobe.importing.report import import_trace

DATA = Path(__file__).parent / "data"


def test_a_trace_of_a_real_gpu() -> None:
    report = import_trace(DATA / "cuda.pt.trace.json.gz")
    [cell], [device] = report.cells, report.devices
    expected = {name: values for name, *values in json.loads((DATA / "cuda-key-averages.json").read_text())}
    assert {one.operator for one in cell.operators} == set(expected) and len(expected) == len(cell.operators) == 60
    for one in cell.operators:
        calls, *times = expected[one.operator]
        ours = (one.host_ns, one.self_host_ns, one.device_ns or 0, one.self_device_ns or 0)
        assert one.calls == calls and [ns / 1e3 for ns in ours] == pytest.approx(times, abs=0.01), one.operator
    assert (device.type, device.name, device.memory_bytes) == ("cuda", "NVIDIA H200", 150_109_880_320)
    assert (cell.device, cell.phase, cell.profiled_steps) == ("cuda", "training", 3)
    assert [(one.calls, one.device_ns) for one in cell.modules if one.module == "Linear_0"] == [(3, 23_264)]
    assert cell.memory is not None and cell.memory.peak_reserved_bytes == 71_303_168 and cell.trace is not None
    assert [track.kind for track in cell.trace.tracks].count("device") == 2  # the stream, and annotations of it
