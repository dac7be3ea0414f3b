"""Events as torch.profiler has them on CUDA, from a double: kernels, launches, copies, and where they are counted."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import torch
from torch._C._autograd import DeviceType

from mpsprobe_devices.operators.events import Event, Recording
from mpsprobe_devices.operators.kineto import _Reader
from mpsprobe_devices.operators.timeline import make_trace
from mpsprobe_devices.operators.totals import module_times, operator_times

CPU, CUDA = DeviceType.CPU, DeviceType.CUDA
MAIN, AUTOGRAD, SYSTEM = 1, 2, 4711  # torch's numbers of threads, and the driver's


def event(name: str, start: int, end: int, number: int = 0, device: Any = CPU, **more: Any) -> SimpleNamespace:
    """One event, with the methods of ``torch._C._autograd._KinetoEvent`` in torch 2.6; ``number``: correlation id."""
    own = {"name": name, "start_ns": 1_000_000 + start, "duration_ns": end - start, "device_type": device}
    numbers = {"correlation_id": number, "linked_correlation_id": 0, "start_thread_id": MAIN, "sequence_nr": -1}
    usual = {"device_index": 0, "device_resource_id": 7, "fwd_thread_id": 0, "scope": 0, "is_user_annotation": False}
    values = {"shapes": [], "dtypes": [], **own, **numbers, **usual, **more}
    return SimpleNamespace(**{method: partial(values.get, method) for method in values})


def test_the_double_has_what_the_real_one_has() -> None:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as made:
        torch.ones(1)
    (real, *_) = made.profiler.kineto_results.events()
    assert all(callable(getattr(real, name)) for name in vars(event("", 0, 0)))


EVENTS = [
    event("mpsprobe::mark -1", 0, 10_000, 1),
    event("mpsprobe::mark 0", 100, 4_000, 2),
    event("aten::linear", 200, 1_000, 3, sequence_nr=5, shapes=[[2, 3], [3, 3]], dtypes=["c10::Half", "c10::Half"]),
    event("aten::addmm", 300, 900, 4, sequence_nr=5),
    # The driver's clock is a little ahead: it begins before its operator and ends after it.
    event("cudaLaunchKernel", 290, 910, 901, linked_correlation_id=4, start_thread_id=SYSTEM),
    event("gemm", 2_000, 5_000, 901, CUDA, linked_correlation_id=4),
    event("aten::copy_", 1_100, 1_300, 5, shapes=[[2], [2]], dtypes=["float", "float"]),
    event("cudaMemcpyAsync", 1_150, 1_200, 902, linked_correlation_id=5, start_thread_id=SYSTEM),
    event("Memcpy HtoD (Pageable -> Device)", 5_000, 5_400, 902, CUDA, linked_correlation_id=5,
          metadata_json='"bytes": 8,'),
    # A graph: one launch, two kernels, the second begins before the first ends. Its annotation is no kernel.
    event("## Call CompiledFxGraph ##", 1_400, 1_900, 6, scope=7, is_user_annotation=True),
    event("cudaGraphLaunch", 1_500, 1_600, 903, linked_correlation_id=6, start_thread_id=SYSTEM),
    event("triton_0", 5_400, 6_000, 903, CUDA, linked_correlation_id=6),
    event("triton_1", 5_900, 6_500, 903, CUDA, linked_correlation_id=6),
    event("## Call CompiledFxGraph ##", 5_400, 6_500, 6, CUDA, is_user_annotation=True),
    event("autograd::engine::evaluate_function: AddmmBackward0", 4_100, 4_900, 7,
          start_thread_id=AUTOGRAD, sequence_nr=5, fwd_thread_id=MAIN),
    event("AddmmBackward0", 4_200, 4_800, 8, start_thread_id=AUTOGRAD, sequence_nr=5, fwd_thread_id=MAIN, scope=1),
    event("aten::mm", 4_300, 4_700, 9, start_thread_id=AUTOGRAD),
    event("cuLaunchKernelEx", 4_400, 4_500, 904, linked_correlation_id=9, start_thread_id=SYSTEM + 1),
    event("gemm", 7_000, 7_700, 904, CUDA, linked_correlation_id=9),
    event("cudaDeviceSynchronize", 8_000, 9_900, 905, start_thread_id=SYSTEM),
    event("[memory]", 300, 300),
    event("Activity Buffer Request", 250, 1_350),
    event("cumsum_kernel", 1_910, 1_950, 10),
]  # fmt: skip


def read(events: list[SimpleNamespace] = EVENTS) -> Recording:
    modules = [("", "Tiny")]
    host, device = _Reader(events, modules).read()
    return Recording("torch.profiler", host, device, modules, 1, timed_device=True)


def test_kernels_count_at_the_operator_that_started_them() -> None:
    found = {one.operator: one for one in operator_times(read())}
    assert (found["aten::linear"].device_ns, found["aten::linear"].self_device_ns) == (3_000, 0)
    assert (found["aten::addmm"].device_ns, found["aten::addmm"].self_device_ns) == (3_000, 3_000)
    assert found["aten::copy_"].device_ns == 400 and found["aten::mm"].device_ns == 700
    assert found["## Call CompiledFxGraph ##"].self_device_ns == 1_200
    assert sum(one.self_device_ns or 0 for one in found.values()) == 3_000 + 400 + 1_200 + 700
    assert found["aten::linear"].host_ns == 800 and found["aten::linear"].self_host_ns == 200
    assert found["aten::linear"].shapes == ["[2, 3] [3, 3]"]
    assert "cumsum_kernel" in found
    assert not any(name.startswith(("cuda", "cuL", "Act", "autograd", "Addmm")) for name in found)


def test_a_module_has_the_time_of_both_passes() -> None:
    forward, backward = module_times(read())
    assert (forward.phase, forward.calls, forward.host_ns, forward.device_ns) == ("forward", 1, 3_900, 4_600)
    assert (backward.phase, backward.calls, backward.host_ns, backward.device_ns) == ("backward", 1, 800, 700)


def test_the_trace_has_rows_for_threads_and_streams_and_joins_launches_with_their_kernels() -> None:
    trace = make_trace(read(), "cuda")
    assert sorted(track.name for track in trace.tracks) == [
        "CUDA 0 stream 7",
        "CUDA 0 stream 7 (2)",
        "python",
        "thread 3",
    ]
    rows: dict[str, str] = {}
    by_flow: dict[int, set[tuple[str, str]]] = {}
    for name, category, track, flow in zip(trace.name, trace.category, trace.track, trace.flow, strict=True):
        rows[trace.names[name]] = trace.tracks[track].name
        by_flow.setdefault(flow, set()).add((trace.names[name], trace.categories[category]))
    assert rows["cudaLaunchKernel"] == rows["cudaDeviceSynchronize"] == rows["aten::addmm"] == "python"
    assert rows["cuLaunchKernelEx"] == rows["aten::mm"] == "thread 3"
    assert rows["triton_1"] != rows["triton_0"]
    assert next(detail for detail in trace.details if "bytes" in detail) == {"device": "0", "stream": "7", "bytes": "8"}
    assert not {"[memory]", "Activity Buffer Request"} & set(trace.names)
    del by_flow[0]
    assert sorted(map(sorted, by_flow.values())) == [
        [("Memcpy HtoD (Pageable -> Device)", "copy"), ("cudaMemcpyAsync", "launch")],
        [("cuLaunchKernelEx", "launch"), ("gemm", "kernel")],
        [("cudaGraphLaunch", "launch"), ("triton_0", "kernel"), ("triton_1", "kernel")],
        [("cudaLaunchKernel", "launch"), ("gemm", "kernel")],
    ]
    short = make_trace(read(), "cuda", most=5)
    assert len(short.start_ns) == 5 and short.truncated == len(trace.start_ns) - 5
    assert short.start_ns == trace.start_ns[:5] and trace.truncated == 0


def test_metadata_that_cannot_be_read() -> None:
    for text in ("", "{", '{"bytes": 8', "[1]", '"bytes": "many",', "null"):
        events = [*EVENTS[:1], event("Memcpy DtoD", 10, 20, 3, CUDA, metadata_json=text)]
        assert "Memcpy DtoD" in make_trace(read(events), "cuda").names


def test_an_overload_that_calls_another_is_one_call() -> None:
    track = ("host", 1)
    made = [
        Event("", "step", track, 0, 100),
        Event("aten::div", "operator", track, 10, 50),
        Event("aten::div", "operator", track, 20, 40, own_device_ns=7),
        Event("aten::add", "operator", track, 60, 90),
        Event("aten::add", "operator", track, 61, 70),
        Event("aten::add", "operator", track, 71, 80),
    ]
    found = {one.operator: one for one in operator_times(Recording("x", made, [], [], 1, timed_device=True))}
    assert (found["aten::div"].calls, found["aten::div"].host_ns, found["aten::div"].device_ns) == (1, 40, 7)
    assert (found["aten::add"].calls, found["aten::add"].host_ns, found["aten::add"].self_host_ns) == (3, 30, 30)


def test_a_kernel_that_no_operator_started_has_its_own_name() -> None:
    """The innermost thing around the launch is a mark of ours, or nothing at all."""
    events = [
        *EVENTS[:2],
        event("cudaLaunchKernel", 500, 600, 901, linked_correlation_id=2, start_thread_id=SYSTEM),
        event("fused_attention", 2_000, 5_000, 901, CUDA, linked_correlation_id=2),
        event("cudaLaunchKernel", 5_000, 5_100, 902, start_thread_id=SYSTEM),
        event("sampler", 6_000, 6_500, 902, CUDA),
    ]
    found = {one.operator: one for one in operator_times(read(events))}
    assert (found["fused_attention"].calls, found["fused_attention"].self_device_ns) == (1, 3_000)
    assert found["fused_attention"].modules == [""] and found["sampler"].self_device_ns == 500
    assert module_times(read(events))[0].device_ns == 3_000
