"""Observed fallbacks, on operators that warn as MPS does; events as torch.profiler has them on CUDA, from a double."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch._C._autograd import DeviceType

from mpsprobe.schemas import ModuleTime, OperatorTime
from mpsprobe_devices.operators import slow
from mpsprobe_devices.operators.kineto import _read
from mpsprobe_devices.operators.probe import OperatorsProbe
from mpsprobe_devices.operators.recording import Event, Recording
from mpsprobe_devices.operators.slow import FallbackWarnings, at_once, verdict
from mpsprobe_devices.traces.columns import KERNEL, OPERATOR, STEP
from mpsprobe_devices.traces.timeline import make_trace
from mpsprobe_devices.traces.totals import operator_times

Open = Callable[..., Any]
Measure = Callable[..., dict[str, Any]]
CUBE = torch.zeros(2, 2, 2)
# ``Tensor.T`` of more than two dimensions warns through TORCH_WARN_ONCE, as ``mps_fallback`` does; the "operator" is T.
ONCE = r"The use of `x\.(?P<operator>T)` on tensors of dimension other than 2"
TEXTS = [
    "The operator 'aten::linalg_qr.out' is not currently supported on the MPS backend and will fall back to run on the"
    " CPU. This may have performance implications. (Triggered internally at MPSFallback.mm:14.)",
    "The operator 'aten::linalg_qr.out' is not currently implemented on the MPS backend and will fall back to run on"
    " the CPU.",
]


@pytest.fixture(name="library", scope="module")
def _library() -> Iterator[Any]:
    """``mpsprobe_test::away``: warns on its way, forward and backward."""
    library = torch.library.Library("mpsprobe_test", "DEF")
    library.define("away(Tensor x) -> Tensor")
    library.define("away_backward(Tensor x) -> Tensor")

    def away(x: torch.Tensor) -> torch.Tensor:
        torch.ops.aten.numpy_T(CUBE)
        return x * 2

    library.impl("away", away, "CompositeExplicitAutograd")
    library.impl("away_backward", away, "CompositeExplicitAutograd")
    torch.library.register_autograd(
        "mpsprobe_test::away", lambda _context, gradient: torch.ops.mpsprobe_test.away_backward(gradient), lib=library
    )
    yield library
    library._destroy()


class Away(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(32, 32), torch.nn.Linear(32, 4)

    def forward(self, inputs: torch.Tensor) -> Any:
        return self.second(torch.ops.mpsprobe_test.away(torch.relu(self.first(inputs))))


@pytest.mark.usefixtures("library")
def test_each_call_is_seen_in_both_passes(open_steps: Open, measure: Measure, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slow, "TEXT", ONCE)
    monkeypatch.delenv(slow.VARIABLE, raising=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the steps that warm up warn, too
        steps = open_steps("training", Away)
    found = measure(OperatorsProbe(slow=True), steps, 3)
    (cost,) = found["fallbacks"]
    assert (cost.operator, cost.method, cost.verdict) == ("T", "observed", "fallback")
    assert cost.calls == 2  # of one step: one in each pass
    trace = found["trace"]
    rows = zip(trace.category, trace.duration_ns, strict=True)
    spent = [duration for category, duration in rows if trace.categories[category] == "fallback"]
    assert len(spent) == 6 and cost.duration_ns == round(sum(spent) / 3)
    operators = {one.operator: one for one in found["operators"]}
    away = operators["mpsprobe_test::away"]
    assert away.calls == 3 and away.self_device_ns == 0 and away.host_ns > 0  # nothing ran on the device
    assert operators["aten::relu"].self_device_ns == operators["aten::relu"].host_ns


def test_the_text_of_each_release() -> None:
    for text in TEXTS:
        with FallbackWarnings() as caught:
            for _ in range(3):  # at the same place: Python's own once must not hold it back
                warnings.warn(text, stacklevel=1)
            assert caught.take() == ["aten::linalg_qr.out"] * 3 and caught.take() == []


def test_other_warnings_go_where_they_went() -> None:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        with FallbackWarnings() as caught:
            warnings.warn("something else", stacklevel=1)
    assert [str(one.message) for one in seen] == ["something else"] and caught.take() == []


def test_whoever_has_turned_it_on_keeps_it() -> None:
    torch.set_warn_always(True)
    try:
        with FallbackWarnings():
            pass
        assert torch.is_warn_always_enabled()
    finally:
        torch.set_warn_always(False)


def test_a_warning_arrives_when_the_call_returns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slow, "TEXT", ONCE)
    with FallbackWarnings() as caught:
        at_once(lambda: [torch.ops.aten.numpy_T(CUBE), None][1])
        assert caught.take() == ["T"]


def test_gradients_are_recorded_inside_as_outside() -> None:
    seen: list[bool] = []
    at_once(lambda: seen.append(torch.is_grad_enabled()))
    with torch.no_grad():
        at_once(lambda: seen.append(torch.is_grad_enabled()))
    assert seen == [True, False]


def test_what_let_it_run(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable, operator, expected in (
        (None, "aten::linalg_qr.out", "fallback"),
        ("0", "aten::linalg_qr.out", "fallback"),
        ("1", "mpsprobe::nothing", "missing"),
        ("1", "aten::add.Tensor", None),
    ):
        monkeypatch.delenv(slow.VARIABLE, raising=False)
        if variable is not None:
            monkeypatch.setenv(slow.VARIABLE, variable)
        if expected is None:  # whether this build has kernels for MPS differs; the answer follows it
            has = torch._C._dispatch_has_kernel_for_dispatch_key(operator, "MPS")
            expected = "fallback" if has else "missing"
        assert verdict(operator) == expected
        assert (slow.VARIABLE in os.environ) is (variable is not None)


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
    host, device = _read(events)
    return Recording("torch.profiler", host, device, [("", "Tiny")], 1, timed_device=True)


def operators(recording: Recording) -> dict[str, OperatorTime]:
    return {one.operator: one for one in operator_times(recording.totals(), recording.source, on_device=True)}


def modules(recording: Recording) -> list[ModuleTime]:
    return recording.module_times(recording.totals())


def test_kernels_count_at_the_operator_that_started_them() -> None:
    found = operators(read())
    assert (found["aten::linear"].device_ns, found["aten::linear"].self_device_ns) == (3_000, 0)
    assert (found["aten::addmm"].device_ns, found["aten::addmm"].self_device_ns) == (3_000, 3_000)
    assert found["aten::copy_"].device_ns == 400 and found["aten::mm"].device_ns == 700
    assert found["## Call CompiledFxGraph ##"].self_device_ns == 1_200
    assert sum(one.self_device_ns or 0 for one in found.values()) == 3_000 + 400 + 1_200 + 700
    assert found["aten::linear"].host_ns == 800 and found["aten::linear"].self_host_ns == 200
    assert found["aten::copy_"].host_ns == 200 and found["aten::copy_"].self_host_ns == 150  # its launch is not its own
    assert found["aten::linear"].shapes == ["[2, 3] [3, 3]"]
    assert "cumsum_kernel" in found
    assert not any(name.startswith(("cuda", "cuL", "Act", "autograd", "Addmm")) for name in found)


def test_a_module_has_the_time_of_both_passes() -> None:
    forward, backward = modules(read())
    assert (forward.phase, forward.calls, forward.host_ns, forward.device_ns) == ("forward", 1, 3_900, 4_600)
    assert (backward.phase, backward.calls, backward.host_ns, backward.device_ns) == ("backward", 1, 800, 700)


def test_the_trace_has_rows_for_threads_and_streams_and_joins_launches_with_their_kernels() -> None:
    trace = make_trace(*read().columns("cuda"))
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
    short = make_trace(*read().columns("cuda", most=5))
    assert len(short.start_ns) == 5 and short.truncated == len(trace.start_ns) - 5
    assert short.start_ns == trace.start_ns[:5] and trace.truncated == 0


def test_metadata_that_cannot_be_read() -> None:
    for text in ("", "{", '{"bytes": 8', "[1]", '"bytes": "many",', "null"):
        events = [*EVENTS[:1], event("Memcpy DtoD", 10, 20, 3, CUDA, metadata_json=text)]
        assert "Memcpy DtoD" in make_trace(*read(events).columns("cuda")).names


def test_an_overload_that_calls_another_is_one_call() -> None:
    track = ("host", 1)
    inner = Event("aten::div", OPERATOR, track, 20, 40)
    host = [
        Event("", STEP, track, 0, 100),
        Event("aten::div", OPERATOR, track, 10, 50),
        inner,
        Event("aten::add", OPERATOR, track, 60, 90),
        Event("aten::add", OPERATOR, track, 61, 70),
        Event("aten::add", OPERATOR, track, 71, 80),
    ]
    kernel = Event("div", KERNEL, ("device", 0, 7), 30, 37, owner=inner)
    found = operators(Recording("x", host, [kernel], [], 1, timed_device=True))
    assert (found["aten::div"].calls, found["aten::div"].host_ns, found["aten::div"].device_ns) == (1, 40, 7)
    # As torch's table adds up: 30 of the outer call, and twice 9 in it.
    assert (found["aten::add"].calls, found["aten::add"].host_ns, found["aten::add"].self_host_ns) == (3, 48, 30)


def test_a_kernel_that_no_operator_started_has_its_own_name() -> None:
    """The innermost thing around the launch is a mark of ours, or nothing at all."""
    events = [
        *EVENTS[:2],
        event("cudaLaunchKernel", 500, 600, 901, linked_correlation_id=2, start_thread_id=SYSTEM),
        event("fused_attention", 2_000, 5_000, 901, CUDA, linked_correlation_id=2),
        event("cudaLaunchKernel", 5_000, 5_100, 902, start_thread_id=SYSTEM),
        event("sampler", 6_000, 6_500, 902, CUDA),
    ]
    found = operators(read(events))
    assert (found["fused_attention"].calls, found["fused_attention"].self_device_ns) == (1, 3_000)
    assert found["fused_attention"].modules == [""] and found["sampler"].self_device_ns == 500
    assert modules(read(events))[0].device_ns == 3_000
