"""Records with torch.profiler, and reads its events directly: no object of torch's own Python layer is made for them.

What torch calls a kernel's operator (``linked_correlation_id``) is what we call it, so that sums agree with
``key_averages``. A runtime call and its kernel have the same ``correlation_id``. Of the event's methods, those that
some releases lack (2.6 to 2.13 were read) are asked for by name.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import time
from collections.abc import Callable
from typing import Any

import torch
from torch._C._autograd import DeviceType, _profiler_enabled
from torch.profiler import ProfilerActivity, profile, supported_activities

from mpsprobe_devices.operators.marks import Mark, Marks
from mpsprobe_devices.operators.recording import Event, Recording
from mpsprobe_devices.traces.columns import ANNOTATION, COPY, KERNEL, LAUNCH, OPERATOR

SOURCE = "torch.profiler"
RUNNING = "another torch profiler is running in this process"
ENGINE = "autograd::engine::"
NOT_SHOWN = (
    "[memory]",
    "[OutOfMemory]",
    "Activity Buffer Request",
    "Buffer Flush",
    "Command Buffer Full",
    "Instrumentation",
    "Lazy Function Loading",
    "Resource",
    "Runtime Triggered Module Loading",
)
RUNTIME = re.compile(r"(cuda|cu|hip)[A-Z]")  # cudaLaunchKernel, cuLaunchKernelEx, hipMemcpyAsync
COPIES = ("Memcpy", "Memset", "gpu_memcpy", "gpu_memset")
FUNCTION = 0  # RecordScope of ATen/record_function.h: operators
# Its own user annotations apart, these are all marks that we make; no operator has such a name.
MARK = "mpsprobe::mark "
DTYPES = {
    "float": "float32",
    "double": "float64",
    "c10::Half": "float16",
    "c10::BFloat16": "bfloat16",
    "long int": "int64",
    "long": "int64",
    "long long": "int64",
    "int": "int32",
    "short int": "int16",
    "short": "int16",
    "signed char": "int8",
    "unsigned char": "uint8",
    "c10::complex<float>": "complex64",
    "c10::complex<double>": "complex128",
}
NO_TENSOR = ("", "Scalar", "ScalarList", "TensorList", "GenericList")


def activity_of(device: str) -> ProfilerActivity | None:
    """What makes torch.profiler time ``device``; ``None`` where this build of torch cannot (MPS, in all of them)."""
    activity = getattr(ProfilerActivity, device.upper(), None)
    return activity if activity in supported_activities() else None


def running() -> bool:
    """Whether a profiler of torch runs already: there can be one."""
    return bool(_profiler_enabled())


class KinetoRecorder:
    """Records from ``start`` to ``stop``; ``allocated`` reads how many bytes tensors hold.

    ``described``: record shapes too, and mark modules and updates. Without, it is bare ``torch.profiler`` with one mark
    for each step: what it adds to the times is what torch adds.
    """

    def __init__(
        self, device: str, model: Any, allocated: Callable[[], int | None] = lambda: None, *, described: bool = True
    ) -> None:
        if running():
            raise RuntimeError(RUNNING)
        activity = activity_of(device)
        if activity is None:
            raise RuntimeError(f"torch.profiler of torch {torch.__version__} does not know '{device}'")
        # libkineto of 2.13 writes lines about its own start and stop to standard error by default.
        os.environ.setdefault("KINETO_LOG_LEVEL", "9")
        # There is one cycle; without this some releases (2.11) warn that events of others are lost.
        kept: dict[str, Any] = {"acc_events": True} if "acc_events" in inspect.signature(profile).parameters else {}
        activities = list({ProfilerActivity.CPU, activity})
        self._profile: Any = profile(activities=activities, record_shapes=described, **kept)
        self._marks = Marks(_mark, model, only_steps=not described)
        self._allocated = allocated
        self._memory: list[tuple[int, int]] = []

    def start(self) -> None:
        self._profile.start()
        self._marks.start()

    def sample(self) -> None:
        self._marks.next_step()
        allocated = self._allocated()
        if allocated is not None:
            self._memory.append((time.time_ns(), allocated))  # the profiler's events have the same epoch

    def stop(self) -> None:
        try:
            self._marks.stop()
        finally:
            self._profile.stop()

    def read(self) -> Recording:
        """What was recorded, after ``stop``: an object for each event, which takes a while."""
        host, device = _read(self._profile.profiler.kineto_results.events())
        return Recording(
            source=SOURCE,
            host=host,
            device=device,
            modules=self._marks.modules,
            complete_steps=self._marks.steps,
            timed_device=bool(device),  # none on the CPU; a zero would be a claim
            memory=self._memory,
            caveats=self._marks.caveats,
        )


def _mark(number: int) -> Mark:
    """As ``record_function``, without a dispatch through the operator that enters it.

    Seen by the profiler as an operator is: an annotation of the user would be copied to the GPU's time line.
    """
    mark: Mark = torch._C._profiler._RecordFunctionFast(MARK + str(number))
    return mark


def _read(events: list[Any]) -> tuple[list[Event], list[Event]]:
    """Events of the host and of the device, joined."""
    by_correlation: dict[int, Event] = {}
    host: list[Event] = []
    runtime: list[tuple[Any, Event]] = []
    device: list[tuple[Any, Event]] = []
    for raw in events:
        name = raw.name()
        if _is_the_profilers(raw, name):
            continue
        start = raw.start_ns()
        event = Event(name, ANNOTATION, ("host", raw.start_thread_id()), start, start + raw.duration_ns())
        if raw.device_type() != DeviceType.CPU:
            if not raw.is_user_annotation():
                _describe_work(event, raw)
                device.append((raw, event))
            continue
        host.append(event)
        if raw.linked_correlation_id() or _is_runtime(raw, name):
            runtime.append((raw, event))
        else:
            by_correlation[raw.correlation_id()] = event
            _describe_call(event, raw)
    threads: dict[int, Any] = {}
    calls: dict[int, Event] = {}
    for raw, event in runtime:  # into the thread of their operators
        calls[raw.correlation_id()] = event
        operator = by_correlation.get(raw.linked_correlation_id())
        if operator is not None:
            threads[raw.start_thread_id()] = event.track = operator.track
            event.start = min(max(event.start, operator.start), operator.end)
            event.end = min(max(event.end, event.start), operator.end)
    for raw, event in runtime:
        event.track = threads.get(raw.start_thread_id(), event.track)
    own: dict[Event, Event] = {}  # before the calls that they are around, when they begin together
    for flow, (raw, event) in enumerate(device, 1):  # to the calls and operators that started them
        call = calls.get(raw.correlation_id())
        operator = by_correlation.get(raw.linked_correlation_id())
        if call is not None:
            call.kind = LAUNCH
            call.flow = event.flow = call.flow or flow  # a graph's launch starts many kernels
            if operator is None or operator.mark is not None:
                # Work that none of torch's operators started (Triton, for example): one in the kernel's name.
                operator = own.setdefault(call, Event(event.name, OPERATOR, call.track, call.start, call.end))
        event.owner = operator
        if operator is not None and operator.kind == ANNOTATION:  # a compiled kernel under a name of its own
            operator.kind = OPERATOR
    return [*own.values(), *host], [event for _, event in device]


def _describe_call(event: Event, raw: Any) -> None:
    if event.name.startswith(MARK):
        event.become(int(event.name[len(MARK) :]))
        return
    event.sequence, event.forward_thread = raw.sequence_nr(), raw.fwd_thread_id()
    if event.name.startswith(ENGINE):
        event.backward = True
    elif raw.scope() == FUNCTION:
        event.kind, event.detail = OPERATOR, _tensors(raw.shapes(), raw.dtypes())


def _describe_work(event: Event, raw: Any) -> None:
    device, queue = raw.device_index(), raw.device_resource_id()
    event.kind, event.track = KERNEL, ("device", device, queue)
    event.detail = {"device": str(device), "stream": str(queue)}
    if event.name.startswith(COPIES) or _activity(raw).startswith(COPIES):
        event.kind = COPY
        moved = _metadata(raw).get("bytes")
        if moved is not None:
            event.detail["bytes"] = str(moved)


def _is_runtime(raw: Any, name: str) -> bool:
    """Whether it is a call of the driver or its runtime that belongs to no operator."""
    kind = _activity(raw)
    if kind:
        return kind.endswith(("_runtime", "_driver"))
    return raw.scope() == FUNCTION and RUNTIME.match(name) is not None


def _is_the_profilers(raw: Any, name: str) -> bool:
    hidden = getattr(raw, "is_hidden_event", None)  # 2.8 and later
    return name in NOT_SHOWN or _activity(raw) == "overhead" or (hidden is not None and hidden())


def _activity(raw: Any) -> str:
    """Kineto's own word for it (2.13 and later), else nothing."""
    return str(raw.activity_type()) if hasattr(raw, "activity_type") else ""


def _metadata(raw: Any) -> dict[str, Any]:
    if not hasattr(raw, "metadata_json"):  # since 2.8 or so
        return {}
    text = raw.metadata_json().strip().rstrip(",")
    try:
        values = json.loads(text if text.startswith("{") else f"{{{text}}}")
    except ValueError:
        return {}
    return values if isinstance(values, dict) else {}


def _tensors(shapes: list[Any], dtypes: list[str]) -> dict[str, str]:
    kept = [place for place, dtype in enumerate(dtypes) if dtype not in NO_TENSOR and place < len(shapes)]
    if not kept:
        return {}
    named = [DTYPES.get(dtypes[place], dtypes[place]) for place in kept]
    return {"shapes": " ".join([str(shapes[place]) for place in kept]), "dtypes": " ".join(named)}
