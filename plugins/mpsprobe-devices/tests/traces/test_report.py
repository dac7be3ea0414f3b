"""From events to a report: what each becomes, and what is said about those that cannot be used or are too many.

Of files made to take memory what is kept for each different thing is bounded.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from trace_files import cell, memory, operators, read, write, x

from mpsprobe.errors import ReportError
from mpsprobe.schemas import ProfileReport
from mpsprobe_devices.traces import columns
from mpsprobe_devices.traces import events as read_events
from mpsprobe_devices.traces.report import import_trace

STEPS = [x(f"ProfilerStep#{number}", "user_annotation", number * 100, 90) for number in (3, 4, 5)]
GPU = {"name": "NVIDIA <b>", "totalGlobalMem": 85_000_000_000, "computeMajor": 9}


def cuda(**more: Any) -> list[dict[str, Any]]:
    return [
        x("aten::to", "cpu_op", 0, 50, External_id=7, Input_Dims=[[2, 3], []], Input_type=["float", "Scalar"]),
        x("cudaLaunchKernel", "cuda_runtime", 10, 5, correlation=11, External_id=7),
        x("cudaMemcpyAsync", "cuda_runtime", 20, 5, correlation=12, External_id=7),
        x("gemm", "kernel", 60, 30, pid=0, tid=7, correlation=11, External_id=7, stream=7, device=0, **more),
        x("Memcpy HtoD", "gpu_memcpy", 95, 8, pid=0, tid=7, correlation=12, bytes=4096),
    ]


def test_steps_become_steps_and_a_report_says_what_is_known_and_no_more(tmp_path: Path) -> None:
    found = cell(tmp_path, *STEPS, x("aten::mm", "cpu_op", 310, 5))
    assert [one.duration_ns for one in found.steps] == [90_000] * 3
    assert found.step is not None and found.step.median_ns == 90_000 and found.profiled_steps == 3
    assert "under a profiler" in found.notes[0]
    assert (found.device, found.phase, found.workload) == ("cpu", "inference", "run")
    report = read(tmp_path, *cuda(), *STEPS, deviceProperties=[GPU])
    assert report.environment is None and report.plan.steps == 3
    [device] = report.devices
    assert (device.type, device.name, device.memory_bytes) == ("cuda", "NVIDIA <b>", 85_000_000_000)
    assert report.cells[0].dtype is None and report.workloads[0].dtype == ""


def test_kernels_belong_to_the_operator_that_launched_them(tmp_path: Path) -> None:
    found = cell(tmp_path, *cuda())
    one = operators(found)["aten::to"]
    assert (one.host_ns, one.self_host_ns, one.device_ns, one.self_device_ns) == (50_000, 40_000, 38_000, 38_000)
    assert one.shapes == ["[2, 3] []"] and found.device == "cuda"
    assert found.trace is not None
    kinds = {(track.kind, track.process, track.thread) for track in found.trace.tracks}
    assert kinds == {("host", 1, 1), ("device", 0, 7)}
    joined = [number for number in found.trace.flow if number]
    assert sorted(joined) == [11, 11, 12, 12]
    assert {"bytes": "4096"} in found.trace.details


def test_without_launches_the_identity_of_the_operator_decides(tmp_path: Path) -> None:
    found = cell(tmp_path, *(one for one in cuda() if one["cat"] != "cuda_runtime"))
    assert operators(found)["aten::to"].device_ns == 30_000
    assert any("no operator" in note and "0.008 ms" in note for note in found.notes)


def test_other_devices_are_called_by_what_launches_on_them(tmp_path: Path) -> None:
    for category, device in (("xpu_runtime", "xpu"), ("privateuse1_runtime", "privateuse1"), ("runtime", "gpu")):
        events = [one | {"cat": category} if one["cat"] == "cuda_runtime" else one for one in cuda()]
        assert cell(tmp_path, *events).device == device


def test_what_calls_itself_only_is_one_call(tmp_path: Path) -> None:
    chain = [x("aten::add", "cpu_op", at, 30 - 2 * at) for at in (0, 1, 2)]
    two = [x("aten::mul", "cpu_op", 100, 50), x("aten::mul", "cpu_op", 110, 10), x("aten::mul", "cpu_op", 130, 10)]
    found = operators(cell(tmp_path, *chain, *two))
    times = {name: (one.calls, one.host_ns, one.self_host_ns) for name, one in found.items()}
    assert times == {"aten::add": (1, 30_000, 30_000), "aten::mul": (3, 70_000, 50_000)}


def test_modules_in_both_ways_of_writing_them(tmp_path: Path) -> None:
    found = cell(
        tmp_path,
        x("nn.Module: Net_0", "python_function", 0, 100, Python_module_id=0, Python_id=1),
        x("torch/nn/modules/module.py(1): _call_impl", "python_function", 5, 90, Python_id=2),
        {**x("nn.Module: Linear", "python_function", 10, 40), "args": {"module": "fc", "type": "Linear"}},
        x("aten::linear", "cpu_op", 20, 20),
        *(one | {"ts": one["ts"] + 60} for one in cuda()[1:4]),
    )
    net, linear = found.modules
    assert (net.module, net.type) == ("Net_0", "Net")
    assert (net.host_ns, net.self_host_ns, net.device_ns) == (100_000, 60_000, 30_000)
    assert (linear.module, linear.type, linear.calls, linear.self_host_ns) == ("fc", "Linear", 1, 40_000)
    assert operators(found)["aten::linear"].modules == ["fc"]


def test_phases_fallbacks_and_training(tmp_path: Path) -> None:
    found = cell(
        tmp_path,
        *STEPS[:2],
        x("forward", "user_annotation", 300, 40),
        x("forward", "user_annotation", 400, 60),
        x("autograd::engine::evaluate_function: MmBackward0", "cpu_op", 350, 9),
        *({**x("aten::qr", "fallback", at, 10), "args": {"verdict": "missing", "bytes": "100"}} for at in (310, 410)),
    )
    assert found.phases["forward"].median_ns == 50_000 and found.phase == "training"
    [fallback] = found.fallbacks
    assert (fallback.operator, fallback.calls, fallback.duration_ns, fallback.bytes) == ("aten::qr", 1, 10_000, 100)
    assert (fallback.verdict, fallback.method) == ("missing", "observed")


def test_memory_of_the_cpu_and_of_a_device(tmp_path: Path) -> None:
    on_cpu = cell(
        tmp_path, *STEPS, *(memory(300 + at, size) for at, size in ((0, 10), (5, 500), (7, 10**400), (9, 20)))
    )
    assert on_cpu.memory is not None
    assert (on_cpu.memory.peak_allocated_bytes, on_cpu.memory.allocated_bytes) == (500, 20)
    assert on_cpu.memory.peak_reserved_bytes is None and on_cpu.memory.curve.times_ns == [0, 5_000, 9_000]
    both = cell(tmp_path, *cuda(), memory(1, 64), memory(2, 4096, 1, **{"Total Reserved": 8192, "Device Id": 0}))
    assert both.memory is not None and both.memory.peak_reserved_bytes == 8192
    assert both.trace is not None
    names = [one.name.replace("_bytes", "") for one in both.trace.counters]
    assert names == ["cpu_allocated", "cpu_reserved", "allocated", "reserved"]


def test_beyond_the_limit_totals_are_complete_and_the_rest_is_counted(tmp_path: Path) -> None:
    events = [x("aten::mm", "cpu_op", at, 5, Input_Dims=[[at]]) for at in range(0, 1000, 10)]
    frames = [x(f"file.py({at}): f", "python_function", at, 7) for at in range(0, 1000, 10)]
    found = cell(tmp_path, *events, *frames, limit=30)
    assert found.trace is not None and len(found.trace.start_ns) == 30
    assert found.trace.truncated == 170
    assert operators(found)["aten::mm"].calls == 100
    assert any("keeps 30 events and leaves out 170" in note for note in found.notes)


def test_unordered_and_overlapping_events(tmp_path: Path) -> None:
    found = cell(tmp_path, x("b", "cpu_op", 50, 100), x("inner", "cpu_op", 10, 5), x("a", "cpu_op", 0, 100))
    assert found.trace is not None
    assert [found.trace.names[one] for one in found.trace.name] == ["a", "inner", "b"]
    assert operators(found)["a"].self_host_ns == 95_000
    assert any("lie across the end" in note for note in found.notes)


def test_what_cannot_be_used_is_left_out_and_told(tmp_path: Path) -> None:
    for event, says in (
        (x("a", "cpu_op", 0, -5), "negative duration"),
        (x("a", "cpu_op", float("nan"), 5), "a time that is a number"),
        (x("a", "cpu_op", 1e300, 5), "a time that is a number"),
        *(({**x("a", "cpu_op", 0, 5), "ts": ts}, "a time that is a number") for ts in ("soon", True, None)),
        (17, "no objects"),
        ({"ph": "C", "ts": 1, "pid": 1, "name": "a", "args": {"value": "much"}}, "a time that is a number"),
    ):
        found = cell(tmp_path, event, x("aten::mm", "cpu_op", 0, 5))
        assert operators(found)["aten::mm"].calls == 1 and len(operators(found)) == 1
        assert any(says in note and note.endswith(": 1") for note in found.notes), found.notes


def test_times_as_text(tmp_path: Path) -> None:
    outer = {**x("a", "cpu_op", 0, 0), "ts": "1.5", "dur": "7.75"}
    found = cell(tmp_path, outer, x("b", "cpu_op", 2, 1))
    assert operators(found)["a"].host_ns == 7_750 and operators(found)["a"].self_host_ns == 6_750


@pytest.mark.parametrize("events", [[], [{"ph": "M", "name": "thread_name"}], [x("a", "cpu_op", 0, -1)], [None]])
def test_nothing_with_a_duration_is_an_error(events: list[object], tmp_path: Path) -> None:
    with pytest.raises(ReportError, match="no event with a duration"):
        import_trace(write(tmp_path, events))


def test_a_trace_that_is_cut_off_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    path = write(tmp_path, [x("aten::mm", "cpu_op", at, 5) for at in range(0, 100, 10)])
    path.write_bytes(path.read_bytes()[:-60])
    [found] = import_trace(path).cells
    assert operators(found)["aten::mm"].calls == 9
    assert any("only the first 9 events" in note and "cut off" in note for note in found.notes)


USUAL = {"ph": "X", "ts": 0, "dur": 1, "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 1}


def _with_usual(tmp_path: Path, *made: dict[str, Any]) -> ProfileReport:
    return import_trace(write(tmp_path, [USUAL, *({**USUAL, **one} for one in made)]))


@pytest.fixture
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, names in ((columns, "ROWS NAMES DETAILS"), (read_events, "ROWS")):
        for name in names.split():
            monkeypatch.setattr(module, f"MOST_{name}", 3)
    monkeypatch.setattr(read_events, "MOST_EVENTS", 12)


@pytest.mark.usefixtures("_small")
def test_too_many_of_one_kind(tmp_path: Path) -> None:
    for made, note in (
        ([{"tid": n} for n in range(8)], "events of more than 10,000 threads or curves, left out: 5"),
        ([{"pid": n} for n in range(8)], "events of more than 10,000 threads or curves, left out: 5"),
        ([{"name": f"a{n}"} for n in range(8)], "events of more than 3 names, left out: 6"),
        ([{"ph": "C", "name": f"a{n}", "args": {"value": 1}} for n in range(8)], "threads or curves, left out: 5"),
        ([{"cat": "timed_step", "tid": n} for n in range(8)], "threads or curves, left out: 5"),
        ([{"args": {"shapes": f"[{n}]"}} for n in range(8)], "of which there are more than 250,000: 5"),
        ([{"ts": n} for n in range(20)], "only the first 12 events of the file could be read: it has more than"),
        ([{"ph": "M", "name": "thread_name", "args": {"name": "x"}, "tid": n} for n in range(20)], "only the first 1 "),
    ):
        report = _with_usual(tmp_path, *made)
        assert note in " ".join(one for cell in report.cells for one in cell.notes)
        assert len(report.cells[0].operators) <= 3
        trace = report.cells[0].trace
        assert trace is not None and len(trace.tracks) <= 3 and len(trace.details) <= 3


@pytest.mark.usefixtures("_small")
def test_a_thread_may_have_no_name(tmp_path: Path) -> None:
    report = _with_usual(tmp_path, {"tid": "\ud800"})
    trace = report.cells[0].trace
    assert trace is not None and trace.tracks[1].name == "thread \N{REPLACEMENT CHARACTER}"
    assert report.model_dump_json()


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just(-1),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)
keys = ("cat", "name", "pid", "tid", "ts", "dur", "args", "id", "s")
categories = ["cpu_op", "kernel", "cuda_runtime", "user_annotation", "python_function", "gpu_memcpy", "timed_step"]
arguments = ("correlation", "External id", "Input Dims", "Input type", "Device Type", "Total Allocated", "name")
likely = {
    "ph": st.sampled_from(["X", "B", "E", "C", "i", "M", "s", "f", "X", "X"]),
    "cat": st.sampled_from(categories),
    "name": st.sampled_from(["ProfilerStep#1", "ProfilerStep#", "aten::mm", "[memory]", "thread_name", "backward"]),
    "ts": st.integers(0, 50) | st.floats(0, 50),
    "dur": st.integers(-1, 50),
    "pid": st.integers(0, 2),
    "args": st.fixed_dictionaries({}, optional=dict.fromkeys(arguments, anything)),
}
optional = {key: likely.get(key, anything) | anything for key in keys}
event = st.fixed_dictionaries({"ph": likely["ph"]}, optional=optional)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    events=st.lists(event | anything, max_size=12),
    head=st.dictionaries(st.sampled_from(["deviceProperties", "mpsprobe"]), anything),
)
def test_no_event_is_a_crash(events: list[object], head: dict[str, object], tmp_path: Path) -> None:
    try:
        assert isinstance(import_trace(write(tmp_path, events, **head)), ProfileReport)
    except ReportError as error:
        assert "no event with a duration" in str(error)
