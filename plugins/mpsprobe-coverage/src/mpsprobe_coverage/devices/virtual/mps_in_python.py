"""What torch answers in Python about MPS where it is: ``torch.backends.mps``, ``torch.mps``, ``torch.accelerator``.

On a build without MPS all of these end in functions of ``torch._C`` that say there is none. They are replaced below
the Python code where that is possible, so that PyTorch's own checks of arguments stay. Nothing here knows what tensors
of the device are. Events and streams are those of a device that has done everything when a call returns.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from weakref import WeakValueDictionary

import torch
from torch.utils._device import _device_constructors

from mpsprobe_coverage.knowledge.chips.limits import limits_of
from mpsprobe_coverage.knowledge.chips.store import Machine, machine_named

Replace = Callable[[Any, str, Any], None]  # (owner, name, value): sets it, and puts it back later

MACHINE = "m1-16gb"
"""The Mac that the device stands for where none is named; of a range of limits it has the lower one."""
_ABSENT = object()
MACOS = 15, 0
_Event, _Stream = torch.Event, torch.Stream
_Generator = torch.Generator


def _nothing_pending(*_: Any) -> None:
    """What is to be waited for is done already."""


class _Replacing(type):
    """``isinstance(event, torch.Event)`` holds for those of every device, and for ``torch.mps.Event``."""

    original: type

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.original) or type.__instancecheck__(cls, instance)


class Event(metaclass=_Replacing):
    """``torch.Event`` while the device is open; one of another device is PyTorch's own."""

    original = _Event
    accelerator: torch.device = torch.device("mps", 0)
    wait = synchronize = _nothing_pending

    def __new__(cls, device: Any = None, **options: Any) -> Any:
        if device is not None and torch.device(device).type != cls.accelerator.type:
            return _Event(device, **options)
        return super().__new__(cls)

    def __init__(
        self, device: Any = None, *, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False
    ) -> None:
        self.device = self.accelerator
        self.enable_timing = enable_timing
        self.event_id = 0
        self._recorded: float | None = None

    def record(self, stream: Any = None) -> None:
        self._recorded = time.perf_counter()

    def query(self) -> bool:
        return True

    def elapsed_time(self, end_event: Any) -> float:
        if not (self.enable_timing and end_event.enable_timing):
            raise RuntimeError("Both events must be created with argument 'enable_timing=True'.")
        if self._recorded is None or end_event._recorded is None:
            raise RuntimeError("Both events must be recorded before calculating elapsed time.")
        return float(end_event._recorded - self._recorded) * 1000


class MpsEvent(Event):
    """``torch.mps.Event``, whose arguments are others."""

    def __new__(cls, enable_timing: bool = False) -> Any:
        return object.__new__(cls)

    def __init__(self, enable_timing: bool = False) -> None:
        super().__init__(enable_timing=enable_timing)


class Stream(metaclass=_Replacing):
    """``torch.Stream`` while the device is open. MPS has one stream, whatever is asked for (``MPSGuardImpl.h``)."""

    original = _Stream
    accelerator: torch.device = torch.device("mps", 0)
    stream_id = device_index = 0
    synchronize = wait_event = wait_stream = _nothing_pending

    def __new__(cls, device: Any = None, *rest: Any, **options: Any) -> Any:
        if isinstance(device, (str, torch.device)) and torch.device(device).type != cls.accelerator.type:
            return _Stream(device, *rest, **options)
        return super().__new__(cls)

    def __init__(self, *_args: Any, **_options: Any) -> None:
        self.device = self.accelerator

    def query(self) -> bool:
        return True

    def is_capturing(self) -> bool:  # optimizers ask whether a graph is being captured
        return False

    def record_event(self, event: Any = None) -> Any:
        event = Event() if event is None else event
        event.record(self)
        return event

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self))

    def __hash__(self) -> int:
        return hash(self.device)

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_exc: object) -> None:
        """The stream that was current stays so: there is one."""


@contextmanager
def replacing() -> Iterator[tuple[Replace, ExitStack]]:
    """What sets attributes and, at the end, undoes that in the opposite order; the stack takes other things to undo."""
    with ExitStack() as put_back:
        # torch keeps sets of its functions once asked for them; sets made now would hold our replacements for ever.
        for cache in {
            _device_constructors,
            *filter(lambda function: hasattr(function, "cache_clear"), vars(torch.overrides).values()),
        }:
            if not cache.cache_info().currsize:
                put_back.callback(cache.cache_clear)

        def replace(owner: Any, name: str, value: Any) -> None:
            own = vars(owner).get(name, _ABSENT)
            if hasattr(own, "__wrapped__"):  # torch._dynamo looks through the caches of torch.backends.mps
                value.__wrapped__ = own.__wrapped__
            setattr(owner, name, value)
            if own is _ABSENT:
                put_back.callback(delattr, owner, name)
            else:
                put_back.callback(setattr, owner, name, own)

        yield replace, put_back


def machine_or_usual(chip: str | None) -> Machine:
    """The Mac with ``chip``, with the smallest memory where none is named; ``MACHINE`` without a chip."""
    machine = machine_named(chip or MACHINE)
    return Machine(machine.chip, machine.memory_bytes or machine.chip.smallest_memory)


def mps_in_python(
    replace: Replace, default_generator: torch.Generator, allocated: Callable[[], int] = int, chip: str | None = None
) -> None:
    """Make ``torch.backends.mps`` and ``torch.mps`` answer as on a Mac.

    ``default_generator`` is the one that ``torch.mps.manual_seed`` and ``get_rng_state`` are about; ``allocated`` says
    how many bytes tensors on the device take now. Names, cores and limits of memory are those of the Mac with ``chip``.
    """
    machine = machine_or_usual(chip)
    limits = limits_of(machine)

    idle = ("deviceSynchronize", "emptyCache", "setMemoryFraction", "profilerStartTrace", "profilerStopTrace")
    below: dict[str, Any] = {
        **{f"mps_{name}": _nothing_pending for name in idle},
        "has_mps": True,
        "mps_is_available": lambda: True,
        "mps_currentAllocatedMemory": allocated,
        "mps_driverAllocatedMemory": allocated,
        "mps_recommendedMaxMemory": lambda: limits.recommended.low,
        "mps_maxBufferLength": lambda: limits.largest_buffer.low,
    }
    for name, answer in below.items():
        replace(torch._C, f"_{name}", answer)
    cached: dict[str, Any] = {
        "is_available": lambda: True,
        "is_macos_or_newer": lambda major, minor=0: (major, minor) <= MACOS,
        "is_macos13_or_newer": lambda minor=0: (13, minor) <= MACOS,
        "get_name": lambda: machine.chip.label,
        "get_core_count": lambda: max(machine.chip.gpu_cores),
    }
    for name, answer in cached.items():
        if hasattr(torch.backends.mps, name):
            replace(torch.backends.mps, name, answer)
    replace(platform, "processor", lambda: "arm")  # Lightning asks for it before it takes MPS
    replace(torch.mps, "_get_default_mps_generator", lambda: default_generator)
    replace(torch.mps, "Event", MpsEvent)
    replace(torch.mps.event, "Event", MpsEvent)


def accelerator_in_python(replace: Replace, device: torch.device) -> None:
    """Make ``torch.accelerator``, ``torch.Event`` and ``torch.Stream`` answer for ``device``, alone of its kind."""
    total = limits_of(MACHINE).recommended.low
    figures = {"current": 0, "peak": 0, "allocated": 0, "freed": 0}
    idle: tuple[str, ...] = ("setDeviceIndex", "setStream", "synchronizeDevice", "emptyCache", "emptyHostCache")
    idle += ("resetAccumulatedStats", "resetPeakStats")
    below: dict[str, Any] = {
        **dict.fromkeys(idle, _nothing_pending),
        **dict.fromkeys(("getDeviceIndex", "exchangeDevice", "maybeExchangeDevice"), lambda *_: 0),
        "getAccelerator": lambda: torch.device(device.type),
        "getStream": lambda index: Stream(),
        "isAllocatorInitialized": lambda: True,
        "getDeviceStats": lambda index: {
            f"{name}_bytes": {"all": dict(figures)} for name in ("allocated", "reserved", "active")
        },
        "getMemoryInfo": lambda index: (total, total),
    }
    for name, answer in below.items():
        replace(torch._C, f"_accelerator_{name}", answer)
    for name, constant in (("is_available", True), ("device_count", 1)):  # releases ask different parts of C++
        replace(torch.accelerator, name, lambda constant=constant: constant)
    for kind in (Event, Stream):
        replace(kind, "accelerator", device)
        replace(torch, kind.__name__, kind)
    _pinned_memory(replace)


def _pinned_memory(replace: Replace) -> None:
    """Memory of the CPU can be pinned, which changes nothing but what ``is_pinned`` answers."""
    pin, is_pinned = torch.Tensor.pin_memory, torch.Tensor.is_pinned

    def pin_memory(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        if self.device.type != "cpu":
            return pin(self, *args, **kwargs)
        if getattr(self, "_pinned", False):
            return self
        copied = self.clone()
        copied._pinned = True  # type: ignore[attr-defined]
        return copied

    def asked(self: torch.Tensor, *args: Any, **kwargs: Any) -> bool:
        return getattr(self, "_pinned", False) or is_pinned(self, *args, **kwargs)

    replace(torch.Tensor, "pin_memory", pin_memory)
    replace(torch.Tensor, "is_pinned", asked)


# By the address of what C++ passes on: a generator comes back from there as another Python object.
_of_device: WeakValueDictionary[int, Any] = WeakValueDictionary()


class GeneratorType(type(_Generator)):  # type: ignore[misc]
    """``isinstance(generator, torch.Generator)`` holds for every generator, whoever made it."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _Generator)


class Generator(_Generator, metaclass=GeneratorType):
    """``torch.Generator`` while the virtual device in Python is open; one of another device is PyTorch's own.

    ``torch.Generator(device="mps")`` and ``torch.mps.get_rng_state()`` end in C++ that a build without MPS does not
    have. Those of the device are CPU ones here that say ``mps:0``: kernels run on the CPU or on meta, where such a
    generator is accepted, and the numbers that MPS would draw are not known anyway.
    """

    accelerator: torch.device = torch.device("mps", 0)

    def __new__(cls, device: Any = "cpu") -> Any:
        if torch.device(device).type != cls.accelerator.type:
            return _Generator(device)
        generator = super().__new__(cls, "cpu")  # type: ignore[call-arg]
        _of_device[generator._cdata] = generator  # type: ignore[attr-defined]
        return generator

    device = property(lambda self: self.accelerator)

    def clone_state(self) -> Any:
        copied = Generator(self.accelerator)
        copied.set_state(self.get_state())
        return copied


def is_of_device(value: object) -> bool:
    return isinstance(value, _Generator) and value._cdata in _of_device  # type: ignore[attr-defined]


def default_generator(replace: Replace, device: torch.device) -> torch.Generator:
    """That of ``device``; ``torch.Generator`` makes those of the device until ``replace`` is undone."""
    replace(Generator, "accelerator", device)
    replace(torch, "Generator", Generator)
    generator: torch.Generator = Generator(device)
    return generator
