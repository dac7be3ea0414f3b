"""The slow mode: the device is synchronised before and after each operator, and the host's clock is read.

For devices whose GPU time torch.profiler cannot see (MPS). What autograd calls in the backward pass is seen too: torch
hands the mode on to the threads of its engine. Composite operators are seen as what they are made of. Views start
nothing on the device, so nothing is synchronised for them.

Operators that left MPS torch itself names, with one warning for each call. ``mps_fallback`` warns through
TORCH_WARN_ONCE, which warns each time once ``torch.set_warn_always`` is on. The text ends the same way in the macOS
wheels of every release from 1.12 to 2.15. A warning reaches Python when the binding returns through which C++ was
entered: for what the backward pass calls that is its end. ``at_once`` is such a binding around one call.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from mpsprobe.protocols import Device
from mpsprobe_devices.operators.marks import Marks, compiled
from mpsprobe_devices.operators.recording import Event, Recording
from mpsprobe_devices.traces.columns import COPY, FALLBACK, KERNEL, OPERATOR, OTHER

SOURCE = "slow mode"
SLOW = "slow mode: the device was synchronised before and after each operator, so nothing ran while the host went on"
EAGER = "torch.compile does nothing under the slow mode: these are the operators of the model as it is written"
QUEUE = ("device", 0, 0)
TRIES = 20
TEXT = (
    r"The operator '(?P<operator>[^']+)' is not currently \w+ ?on the MPS backend and will fall back to run on the CPU"
)
VARIABLE = "PYTORCH_ENABLE_MPS_FALLBACK"


class SlowRecorder(TorchDispatchMode):
    """Records from ``start`` to ``stop``; as ``KinetoRecorder``."""

    supports_higher_order_operators = True

    def __init__(self, device: Device, model: Any, allocated: Callable[[], int | None]) -> None:
        super().__init__()
        self._device, self._allocated = device, allocated
        self._host: list[Event] = []
        self._queue: list[Event] = []
        self._memory: list[tuple[int, int]] = []
        self._marks = Marks(self._mark, model)
        self._warnings = FallbackWarnings()
        self._inside = contextlib.ExitStack()
        self._views: dict[Any, bool] = {}
        self._makers: set[int] = set()
        self._thread = threading.get_ident()
        self._floor = 0

    def start(self) -> None:
        self._floor = self._synchronising()
        self._inside.enter_context(self._warnings)
        self._inside.enter_context(self)
        self._marks.start()

    def sample(self) -> None:
        self._marks.next_step()

    def stop(self) -> None:
        with self._inside:
            self._marks.stop()

    def read(self) -> Recording:
        floor = f"each operator's time has about {self._floor} ns of synchronisation in it"
        caveats = [SLOW, floor, *self._marks.caveats] + ([EAGER] if compiled() else [])
        return Recording(
            source=SOURCE,
            host=self._host,
            device=self._queue,
            modules=self._marks.modules,
            complete_steps=self._marks.steps,
            timed_device=True,
            slow=True,
            memory=self._memory,
            caveats=caveats,
        )

    def _synchronising(self) -> int:
        """Ns that it takes when there is nothing to wait for: the least of some tries."""
        spent = []
        for _ in range(TRIES):
            self._device.synchronize()
            start = time.perf_counter_ns()
            self._device.synchronize()
            spent.append(time.perf_counter_ns() - start)
        return max(0, min(spent))

    @contextlib.contextmanager
    def _mark(self, number: int) -> Iterator[None]:
        start = time.perf_counter_ns()
        event = Event("", OTHER, _thread(), start, start)
        event.become(number)
        self._host.append(event)
        try:
            yield
        finally:
            event.end = max(event.start + 1, time.perf_counter_ns())

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if torch.Tensor in types:  # torch 2.6 hands each detach on a second time, and names the type only then
            return func(*args, **kwargs)
        return self._record(func, args, kwargs)

    def _record(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        schema = getattr(function, "_schema", None)
        if schema is None:  # an operator of a higher order, measured as a whole: what it calls is not seen
            event = Event(f"higher_order::{function.name()}", OPERATOR, _thread(), 0, 0)
            return self._measured(function, args, kwargs, event, view=False)
        if schema.name.startswith("profiler::"):  # marks of torch's own
            return function(*args, **kwargs)
        if _is_composite(function, args, kwargs):
            with self:
                return function.decompose(*args, **kwargs)
        if function not in self._views:
            self._views[function] = _is_view(schema)
        event = Event(schema.name, OPERATOR, _thread(), 0, 0)
        if schema.overload_name:
            event.detail = {"overload": schema.overload_name}
        return self._measured(function, args, kwargs, event, self._views[function])

    def _measured(self, function: Any, args: Any, kwargs: Any, event: Event, view: bool) -> Any:
        self._number(event)
        result: Any = None

        def call() -> None:
            nonlocal result
            if not view:
                self._device.synchronize()
            event.start = time.perf_counter_ns()
            try:
                result = function(*args, **kwargs)
                if not view:
                    self._device.synchronize()
            finally:
                event.end = max(event.start + 1, time.perf_counter_ns())

        try:
            at_once(call)
        finally:
            if event.start:
                self._host.append(event)
        self._describe(event, (args, kwargs), result, view)
        return result

    def _number(self, event: Event) -> None:
        """The autograd node that the operator makes, or that it belongs to: what joins the passes of a module."""
        event.forward_thread = self._thread  # sequence numbers are the thread's; forward runs where the steps do
        if torch._C._current_graph_task_id() != -1:
            event.backward = True
            node = torch._C._current_autograd_node()
            if node is not None:
                event.sequence = node._sequence_nr()
        elif torch.is_grad_enabled():
            # The node is made before its operator is called, so it has the number before the next one. An operator
            # that makes none reads the number of the one before it.
            number = torch._C._autograd._get_sequence_nr() - 1
            if number not in self._makers and event.track == ("host", self._thread):
                self._makers.add(number)
                event.sequence = number

    def _describe(self, event: Event, inputs: Any, result: Any, view: bool) -> None:
        args, kwargs = inputs
        shown = [value for value in (*args, *kwargs.values()) if isinstance(value, torch.Tensor)]  # as torch.profiler
        if shown:
            event.detail["shapes"] = " ".join([str(list(tensor.shape)) for tensor in shown])
            event.detail["dtypes"] = " ".join([str(tensor.dtype).removeprefix("torch.") for tensor in shown])
        tensors, outputs = _tensors(inputs), _tensors(result)
        if warned := self._warnings.take():
            self._fell_back(event, warned[0], tensors, outputs)
        elif not view:
            self._ran(event, tensors, outputs)
        allocated = self._allocated()
        if allocated is not None and (not self._memory or self._memory[-1][1] != allocated):
            self._memory.append((event.end, allocated))

    def _ran(self, event: Event, tensors: list[Any], outputs: list[Any]) -> None:
        event.flow = len(self._queue) + 1
        kinds = {tensor.device.type for tensor in (*tensors, *outputs)}
        queued = Event(event.name, KERNEL, QUEUE, event.start, event.end, owner=event, flow=event.flow)
        copies = "copy" in event.name or event.name == "aten::_local_scalar_dense"
        if copies and len(kinds) > 1 and "cpu" in kinds:
            queued.kind, queued.detail = COPY, {"bytes": str(_bytes(outputs or tensors[:1]))}
        self._queue.append(queued)

    def _fell_back(self, event: Event, operator: str, tensors: list[Any], outputs: list[Any]) -> None:
        """It ran on the CPU: tensors were copied there and back, in a time that cannot be separated from its own."""
        there, back = _bytes(tensors), _bytes(outputs)
        event.kind = FALLBACK
        event.flow = len(self._queue) + 1
        event.detail |= {"fallback": operator, "verdict": verdict(operator), "bytes": str(there + back)}
        name = self._device.name.upper()
        for moved, at, title in ((there, event.start, f"{name} to CPU"), (back, event.end, f"CPU to {name}")):
            if moved:
                detail = {"bytes": str(moved), "time": "not measured"}
                self._queue.append(Event(title, COPY, QUEUE, at, at, flow=event.flow, detail=detail))


class FallbackWarnings:
    """Catches these warnings, and only these, while it is entered; others go where they went before."""

    def __init__(self) -> None:
        self._caught: list[str] = []
        self._inside = contextlib.ExitStack()
        self._show: Callable[..., None] = warnings.showwarning

    def __enter__(self) -> FallbackWarnings:
        self._inside.callback(torch.set_warn_always, torch.is_warn_always_enabled())
        self._inside.enter_context(warnings.catch_warnings())
        self._show = warnings.showwarning
        warnings.filterwarnings("always", message=TEXT)
        warnings.showwarning = self._caught_or_shown
        torch.set_warn_always(True)
        return self

    def __exit__(self, *_: object) -> None:
        self._inside.close()

    def take(self) -> list[str]:
        """The operators that warned since it was last asked."""
        taken = self._caught.copy()
        self._caught.clear()
        return taken

    def _caught_or_shown(self, message: Any, *where: Any, **more: Any) -> None:
        match = re.match(TEXT, str(message))
        if match is None:
            self._show(message, *where, **more)
        else:
            self._caught.append(match["operator"].removesuffix(".default"))


class _Binding(torch.autograd.Function):
    """Calls something; when it returns to Python, the warnings of C++ inside it have been given."""

    @staticmethod
    def forward(ctx: Any, call: Callable[[], None]) -> None:
        call()


def at_once(call: Callable[[], None]) -> None:
    """Run ``call``, and give its warnings before returning. Whether gradients are recorded stays as it is."""
    enabled = torch.is_grad_enabled()

    def with_gradients() -> None:
        with torch.set_grad_enabled(enabled):
            call()

    _Binding.apply(with_gradients)


def verdict(operator: str) -> str:
    """``missing`` where only the environment variable let ``operator`` run, ``fallback`` where torch chose the CPU.

    An operator that falls back by itself has a kernel of its own for MPS, which copies; one that is missing has none.
    """
    if os.environ.get(VARIABLE, "0").strip() in ("", "0"):
        return "fallback"
    try:
        return "fallback" if torch._C._dispatch_has_kernel_for_dispatch_key(operator, "MPS") else "missing"
    except RuntimeError:  # an operator that this process does not know
        return "missing"


def _thread() -> tuple[str, int]:
    return ("host", threading.get_ident())


def _is_view(schema: Any) -> bool:
    """Whether it returns what it was given, seen differently, and writes nothing."""
    returned = [returned.alias_info for returned in schema.returns]
    return bool(returned) and all(alias is not None and not alias.is_write for alias in returned)


def _is_composite(function: Any, args: Any, kwargs: Any) -> bool:
    """Whether it is only made of others. Without autograd (inference mode) such a one arrives as it is.

    A device may have a kernel of its own for it, as MPS has for ``aten::linear``; then it is one operator.
    """
    name = function.name()
    if not torch._C._dispatch_has_kernel_for_dispatch_key(name, "CompositeImplicitAutograd"):
        return False
    keys = {torch._C._dispatch_key_for_device(tensor.device.type) for tensor in _tensors((args, kwargs))}
    return not any(torch._C._dispatch_has_kernel_for_dispatch_key(name, key) for key in keys)


def _tensors(values: Any) -> list[Any]:
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor)]


def _bytes(tensors: list[Any]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors if tensor.device.type != "cpu")
