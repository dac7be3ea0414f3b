"""The native device of one release, open."""

from __future__ import annotations

import atexit
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Self

import torch

from mpsprobe.errors import UsageError
from mpsprobe_coverage.devices.compiling import DEVICE
from mpsprobe_coverage.devices.interpreter import passing_on
from mpsprobe_coverage.devices.metal.running import Fault, Library
from mpsprobe_coverage.devices.native.recording import Recording
from mpsprobe_coverage.devices.native.registering import registered
from mpsprobe_coverage.devices.native.wrong import Wrong
from mpsprobe_coverage.devices.virtual.libraries import answering
from mpsprobe_coverage.devices.virtual.mps_in_python import Replace, machine_or_usual, mps_in_python, replacing
from mpsprobe_coverage.knowledge.chips.limits import limits_of
from mpsprobe_coverage.knowledge.judging.chain import Chain
from mpsprobe_coverage.recording.attribution import Attribution, Origin
from mpsprobe_coverage.recording.capturing import captured, is_on_mps
from mpsprobe_coverage.recording.phases import optimizers_followed
from mpsprobe_coverage.recording.recorder import Recorder

if TYPE_CHECKING:
    from mpsprobe_coverage.devices.native.inductor import Generated

_WORDS = 5  # of one site
_MOVED, _FROM_DEVICE, _WEIGHTS = 1, 2, 4
_open: list[NativeDevice] = []


# Calls with tensors of the CPU alone, and where their results went, as C++ saw them (`on_cpu.cpp`).
class Site(NamedTuple):
    operator: str
    phase: str
    origin: Origin
    calls: int
    data_bytes: int  # what they read and wrote
    moved: bool = False  # results of theirs came to the device
    from_device: bool = False  # they read what was copied from there
    weights: bool = False  # they read tensors that require a gradient


_log = logging.getLogger(__name__)


class OnCpu(NamedTuple):
    sites: Sequence[Site] = ()  # each once
    flows: Iterable[tuple[int, int]] = ()  # positions in ``sites``: the second has read what the first wrote
    device_bytes: int = 0  # what calls on the device read and wrote


def _followed_no_more() -> None:
    torch.ops.mpsprobe.follow_cpu(False)
    torch.ops.mpsprobe.follow_memory(False)


@cache
def _stop_in_children() -> None:
    """A forked process sees no such calls."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_followed_no_more)


class NativeDevice:
    """Tensors on ``mps:0`` in C++ too, with values, computed by the CPU; every call is judged.

    C++ knows one device of this type in a process, for as long as the process lives; ``with`` is for the kernels, and
    for what is recorded. ``UsageError`` where it cannot be built, or torch has looked for MPS in this process.
    """

    name = "virtual"

    def __init__(
        self,
        chain: Chain,
        *,
        keep_going: bool = True,  # what a Mac refuses is computed anyway
        lines: bool = True,  # record the module and the line of every call
        cpu: bool = False,  # follow what is computed with tensors of the CPU alone, and the order of memory
        chip: str | None = None,  # that `torch.mps` answers for
        shader: Any = None,  # makes a library of what was generated and its source, where `torch.compile` does that
        with_bugs: bool = False,  # known wrong results that can be computed come out wrong; `wrong` counts them
    ) -> None:
        self.chain, self._keep_going, self._lines, self._cpu, self._chip = chain, keep_going, lines, cpu, chip
        self.shader = shader
        self.wrong = Wrong(chain, chip) if with_bugs else None
        self.generated: Generated | None = None
        self.faults: list[Fault] = []  # of launches of Metal kernels
        self.attribution = Attribution()
        self._exits = ExitStack()
        self._recording: Recording  # of the last time that it was open
        DEVICE.load()
        atexit.unregister(_await_autograd)
        atexit.register(_await_autograd)
        operators = torch.ops.mpsprobe
        self.attribution.ask_for_threads(operators.thread_now.default, operators.thread_of_node.default)
        if not operators.is_found():
            raise UsageError(
                "torch has looked for MPS in this process before, and looks only once",
                "Open the device before anything else is done with torch. Commands do: for a model, write a function "
                "that returns it and its inputs, and name it as FILE.py:FUNCTION; for a program, mpsprobe run.",
            )

    @property
    def recorder(self) -> Recorder:
        return self._recording.recorder

    def __enter__(self) -> Self:
        operators = torch.ops.mpsprobe
        with ExitStack() as exits:
            kernels = exits.enter_context(registered(self.chain, self.attribution, self.wrong))
            replace, put_back = exits.enter_context(_mps_surface(self.chain.table.release, self._chip))
            _without_metal(replace, self.faults.append)
            exits.enter_context(self.attribution)
            if self.shader is None:
                _compiled_eagerly(replace)
            else:
                if find_spec("torch._inductor.codegen.mps") is None:
                    raise UsageError(f"torch {torch.__version__} has no Inductor for MPS", "It came with torch 2.7.")
                from mpsprobe_coverage.devices.native.inductor import generating  # takes as long as torch itself

                made = generating(replace, self.shader, keep_going=self._keep_going)
                self.generated = put_back.enter_context(made)
            self._recording = Recording(kernels, lines=self._lines, keep_going=self._keep_going)
            exits.callback(self._recording.stop)
            self._recording.start()
            exits.enter_context(passing_on(operators.raise_later))
            if self._cpu:
                _stop_in_children()
                exits.callback(_followed_no_more)
                operators.follow_cpu(True)
                operators.follow_memory(True)
            exits.enter_context(optimizers_followed(operators.in_optimizer))
            exits.callback(_open.remove, self)
            _open.append(self)
            self._exits = exits.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        self._exits.__exit__(*error)

    def on_cpu(self) -> OnCpu:
        words, names, pairs, device_bytes = torch.ops.mpsprobe.on_cpu()
        sites = []
        for position in range(0, len(words), _WORDS):
            place, name, calls, data_bytes, flags = words[position : position + _WORDS]
            happened = (bool(flags & table) for table in (_MOVED, _FROM_DEVICE, _WEIGHTS))
            sites.append(Site(names[name], *self._recording.place_of(place), calls, data_bytes, *happened))
        return OnCpu(sites, list(zip(pairs[::2], pairs[1::2], strict=True)), device_bytes)

    @contextmanager
    def apart(self) -> Iterator[None]:
        """What is computed inside with tensors of the CPU alone is none of the program's."""
        torch.ops.mpsprobe.follow_cpu(False)
        try:
            yield
        finally:
            torch.ops.mpsprobe.follow_cpu(self._cpu)

    def taken(self) -> Recorder:
        """What was called since this was last asked; it is not in ``recorder`` then."""
        return self._recording.taken()

    def finish(self) -> None:
        self._recording.take()


def native_device_now() -> NativeDevice | None:
    return _open[-1] if _open else None


def _await_autograd() -> None:
    """Before Python ends: a thread of autograd that frees its objects later aborts the process (``ending.cpp``)."""
    with suppress(RuntimeError):  # no thread can be started any more
        torch.ops.mpsprobe.await_autograd()


# What Python code asks torch about MPS, answered as on a Mac while the device is open.
@contextmanager
def _mps_surface(release: str, chip: str | None = None) -> Iterator[tuple[Replace, ExitStack]]:
    """Make Python's side of torch answer as on a Mac with ``chip``; C++ answers for itself (``native/device.cpp``)."""
    limits = limits_of(machine_or_usual(chip))
    torch.ops.mpsprobe.set_limits(limits.recommended.low, limits.largest_buffer.low)
    with answering(release) as libraries, replacing() as (replace, put_back):
        mps_in_python(replace, torch.ops.mpsprobe.default_generator(), torch._C._mps_currentAllocatedMemory, chip=chip)
        replace(torch._C, "_mps_emptyCache", torch.ops.mpsprobe.emptied.default)
        _storages_on_mps(replace)
        libraries.begin(replace, put_back, note=False)
        yield replace, put_back


def _without_metal(replace: Replace, faults: Callable[[Fault], object]) -> None:
    """Run kernels whose source is there; say clearly that compiled ones cannot be, where torch finds no function."""
    replace(torch._C, "_mps_compileShader", lambda source: Library(source, faults))
    for name in ("loadMetalllib", "loadMetallibFromPath"):
        replace(torch._C, f"_mps_{name}", _no_shaders)
    for name in ("isCaptureEnabled", "isCapturing"):  # only with MTL_CAPTURE_ENABLED=1
        replace(torch._C, f"_mps_{name}", lambda: False)


def _no_shaders(source: Any) -> NoReturn:
    raise RuntimeError(
        "compiled Metal libraries run on a Mac only: the virtual MPS device of mpsprobe compiles source "
        "(torch.mps.compile_shader). Leave this part out there, or run the program with --device mps on a Mac."
    )


def _storages_on_mps(replace: Replace) -> None:
    """Let the constructor of storages make those of MPS, without which nothing can be loaded or unpickled there.

    It knows the devices that its build of torch has (``THPStorage_pynew`` in ``torch/csrc/Storage.cpp``), or takes the
    address of an allocator.
    """
    new: Any = torch.UntypedStorage.__new__
    address = torch.ops.mpsprobe.allocator()

    def made(cls: Any, *args: Any, device: Any = None, **options: Any) -> Any:
        if device is None:
            return new(cls, *args, **options)
        if torch.device(device).type != "mps":
            return new(cls, *args, device=device, **options)
        return new(cls, *args, allocator=address, **options)

    replace(torch.UntypedStorage, "__new__", staticmethod(made))


def _compiled_eagerly(replace: Replace) -> None:
    """Run what inductor would compile for MPS operator by operator, and say so once.

    A Mac runs shaders of its own there, which no table has; graphs without a tensor of MPS are compiled as ever.
    """
    wrapper = torch._TorchCompileInductorWrapper
    compiled = wrapper.__call__
    said = False

    def call(self: Any, model_: Any, inputs_: Any, **options: Any) -> Any:
        nonlocal said
        if not is_on_mps(model_, inputs_):
            return compiled(self, model_, inputs_, **options)
        if not said:
            _log.warning(
                "torch.compile makes Metal shaders on a Mac. The virtual device runs the same operators one by one, "
                "and the report has those; with --compile it makes and runs the shaders."
            )
            said = True
        return captured(model_.forward if isinstance(model_, torch.nn.Module) else model_)

    replace(wrapper, "__call__", call)
