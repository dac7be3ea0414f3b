"""Kernels that Inductor generated and a program launches: counted, and compared with the operators they were made of.

The first launch at each place of a graph is compared, and again where tensors have other sizes. What the kernel read is
taken to the CPU, and the graph's nodes are computed from that in float64. Memory that it has to write is filled before,
so that what it leaves out, or reads too early, is seen. Then its lanes run once more in the opposite order.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch.fx.node import map_aggregate
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_map_only

from mpsprobe_coverage.devices.metal.running import Kernel as Runnable
from mpsprobe_coverage.devices.metal.running import Library
from mpsprobe_coverage.devices.native.device import native_device_now
from mpsprobe_coverage.devices.native.inductor import Generated, Kernel, Place
from mpsprobe_coverage.reporting.compiled import Launched
from mpsprobe_coverage.verifying.comparing import Tolerance, Wrong, compared, tolerance_of
from mpsprobe_coverage.verifying.copying import widened, wider
from mpsprobe_coverage.verifying.operators import magnitudes, off_by_rounding, rounded

MOST_NODES = 300
"""Of a graph, behind one result: what needs more was not computed by this kernel alone."""
LARGEST = 2**28
"""Bytes of a tensor: kernels that get a larger one are not compared, because it is copied for that, in float64 too."""
FEW = 1e-3
"""The share of whole numbers that may differ: a comparison with a number that both sides round differently."""
_DRAWN = ("inductor_rand", "inductor_seed", "inductor_lookup_seed", "philox")
_AS_WRITTEN = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


class Kernels:
    """What ``torch.mps.compile_shader`` is for the graphs of a program; ``launched`` has their kernels."""

    def __init__(self) -> None:
        self.launched: dict[Kernel, Launched] = {}

    def __call__(self, generated: Generated, source: str) -> Any:
        return _Library(source, generated.defined(source), self.launched)


class _Library:
    def __init__(self, source: str, kernels: Mapping[str, Kernel], launched: dict[Kernel, Launched]) -> None:
        launched |= {kernel: Launched() for kernel in kernels.values()}
        self._kernels, self._launched = kernels, launched
        self._library = Library(source, lambda fault: launched[kernels[fault.kernel]].faults.append(fault.text))

    def __getattr__(self, name: str) -> Any:
        run, kernel = getattr(self._library, name), self._kernels[name]
        launched = self._launched[kernel]
        seen: set[Any] = set()

        def launch(*args: Any, **sizes: Any) -> None:
            number = launched.phases.total() % (len(kernel.places) or 1)
            launched.add(args)
            tensors = [argument for argument in args if isinstance(argument, torch.Tensor)]
            shapes = (number, *(tuple(tensor.shape) for tensor in tensors))
            if not kernel.places:
                run(*args, **sizes)
                return
            device, place = native_device_now(), kernel.places[number]
            assert device is not None, "its kernels are launched while it is open"
            with device.apart(), torch.no_grad(), _disable_current_modes():  # this is none of the program's
                if shapes in seen or any(tensor.nbytes > LARGEST for tensor in tensors):
                    run(*_as_begun(args, len(place.outputs)), **sizes)
                else:
                    seen.add(shapes)
                    _check(run, kernel, place, launched, args, sizes)

        return launch


def _check(run: Runnable, kernel: Kernel, place: Place, launched: Launched, args: Any, sizes: Any) -> None:
    tensors, numbers = [_here(argument) for argument in args[: len(place.inputs)]], args[len(place.inputs) :]
    written, read = tensors[: len(place.outputs)], {tensor.data_ptr() for tensor in tensors[len(place.outputs) :]}
    fresh = [
        not over and tensor.data_ptr() not in read for tensor, (_, over) in zip(written, place.outputs, strict=True)
    ]
    changing = [any(_share(tensor, other) for other in written) for tensor in tensors]
    before, again = _kept(tensors, changing), _kept(tensors, changing)
    for one, other, is_fresh in zip(written, again, fresh, strict=False):
        if is_fresh:
            _fill(one)
            _fill(other)
    run(*_as_begun([*tensors, *numbers], len(written)), **sizes)
    run(*again, *numbers, backwards=True, **sizes)
    known = {
        node: value
        for number, (node, value) in enumerate(zip(place.inputs, before, strict=True))
        if node is not None and not (number < len(fresh) and fresh[number]) and _is_value(node, value)
    }
    for (node, over), value in zip(place.outputs, before, strict=False):
        if over and node is not None and isinstance(base := node.args[0], torch.fx.Node) and _is_value(base, value):
            known[base] = value
    given = dict(zip(place.sizes, numbers, strict=False))
    values = [_Values(known, given, change) for change in (widened, None)]
    # A node that is written into a part of a buffer has other sizes, and is not what the kernel's output is.
    nodes = [
        node if node is not None and _is_value(node, one) else None
        for (node, _), one in zip(place.outputs, written, strict=True)
    ]
    drawn = {node: got for node, got in zip(nodes, written, strict=True) if values[0].or_none(node) is None}
    for part in values:  # what the kernel drew, and has written, is where its other results come from
        part.know(drawn)
    for number, node in enumerate(nodes):
        got, name = written[number], run.parameters[number].name
        allowed = max(
            (tolerance_of(operator, got.dtype) for operator in kernel.operators or ("",)),
            key=lambda allowed: allowed.rtol,
        )
        if (race := _off(again[number], got, lambda: None, allowed)) is not None:
            these = f"{race.got:g} or {race.expected:g} at {list(race.at)}"
            launched.faults.append(f"{name} depends on the order in which threads run: {race.why or these}")
        elif node not in drawn:
            exact, count = values[0].of(node), max(tensor.numel() for tensor in tensors)
            unsure = partial(_unsure, exact, node, {**known, **drawn}, given, count)
            wrong = _off(got, exact, partial(values[1].or_none, node), allowed, unsure)
            if wrong is not None:
                launched.faults.append(
                    f"{name} is wrong in {wrong.elements} of {wrong.of_elements} numbers{_at(wrong)}"
                )
    launched.compared += any(node not in drawn for node in nodes)


def _unsure(
    exact: torch.Tensor, node: Any, known: Mapping[Any, torch.Tensor], sizes: Mapping[str, Any], count: int
) -> list[torch.Tensor]:
    known = {one: value for one, value in known.items() if one is not None}
    near, sums = (_Values(known, sizes, change).or_none(node) for change in (rounded, magnitudes))
    return off_by_rounding(exact, near, sums, count)


def _off(
    got: torch.Tensor,
    exact: torch.Tensor,
    same: Callable[[], torch.Tensor | None],
    allowed: Tolerance,
    unsure: Callable[[], list[torch.Tensor]] = list,
) -> Wrong | None:
    wrong = compared(got, exact, same, allowed, unsure)
    if wrong is None or got.is_floating_point() or got.is_complex() or wrong.why:
        return wrong
    by_cpu = same()
    differ = (got != exact) & (True if by_cpu is None else got != by_cpu)
    return wrong if int(differ.sum()) > FEW * got.numel() else None


def _at(wrong: Wrong) -> str:
    if wrong.why:
        return f": {wrong.why}"
    return f": {wrong.got:g} at {list(wrong.at)}, where {wrong.expected:g} is right"


def _memory(tensor: torch.Tensor) -> torch.Tensor:
    """What a strided tensor of this machine's memory reaches over."""
    held = 1 + sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True))
    if not tensor.numel():
        return torch.empty(0, dtype=tensor.dtype)
    memory = (ctypes.c_char * (held * tensor.element_size())).from_address(tensor.data_ptr())
    return torch.frombuffer(memory, dtype=tensor.dtype)


def _here(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor of the virtual device, whose memory is this machine's, as one of the CPU."""
    return _memory(tensor).as_strided(tensor.shape, tensor.stride())


def _as_begun(args: Sequence[Any], outputs: int) -> list[Any]:
    """The arguments of a launch, with copies of what it reads where it writes.

    The threads of a GPU run together: most read what was there before the first has written.
    """
    written = {argument.data_ptr() for argument in args[:outputs]}

    def begun(argument: Any) -> Any:
        reads = isinstance(argument, torch.Tensor) and argument.data_ptr() in written
        return _memory(argument).clone().as_strided(argument.shape, argument.stride()) if reads else argument

    return [*args[:outputs], *map(begun, args[outputs:])]


def _kept(tensors: Sequence[torch.Tensor], changing: Sequence[bool]) -> list[torch.Tensor]:
    """``tensors``, with copies of those that change: one of memory that is several tensors'."""
    memories = [_memory(tensor) for tensor in tensors]
    places = [(memory.data_ptr(), memory.dtype) if of else None for memory, of in zip(memories, changing, strict=True)]
    longest = dict(sorted(zip(places, memories, strict=True), key=lambda pair: pair[1].numel()))
    copies = {place: memory if place is None else memory.clone() for place, memory in longest.items()}
    return [
        tensor if place is None else copies[place].as_strided(tensor.shape, tensor.stride())
        for tensor, place in zip(tensors, places, strict=True)
    ]


def _share(tensor: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether any of their memory is the same."""
    (first, length), (second, other_length) = (
        (memory.data_ptr(), _memory(memory).nbytes) for memory in (tensor, other)
    )
    return first < second + other_length and second < first + length


def _fill(tensor: torch.Tensor) -> None:
    """With NaN, or -1: its own elements, because those between them may be another tensor's."""
    tensor.view(_AS_WRITTEN[tensor.element_size()]).fill_(-1)


def _is_value(node: torch.fx.Node, value: torch.Tensor) -> bool:
    known = node.meta.get("val")
    return isinstance(known, torch.Tensor) and known.dim() == value.dim() and known.dtype == value.dtype


class _NotKnown(Exception):
    """A node that cannot be computed from what a kernel read: of random numbers, or of another kernel."""


class _Values:
    """Nodes of a graph from the values of some, on the CPU; in float64, of what ``change`` makes of them, if given."""

    def __init__(
        self,
        known: Mapping[torch.fx.Node, torch.Tensor],
        sizes: Mapping[str, Any],
        change: Callable[[torch.Tensor], Any] | None,
    ) -> None:
        self._change, self._computed = change, 0
        self._known: dict[torch.fx.Node, Any] = {}
        self.know(known)
        self._sizes = {**sizes}
        for node, value in known.items():
            for size, there in zip(node.meta["val"].shape, value.shape, strict=True):
                if isinstance(size, torch.SymInt):
                    self._sizes[str(size)] = there

    def of(self, node: torch.fx.Node | None) -> Any:
        """Raises ``_NotKnown``."""
        if node is None:
            raise _NotKnown
        if node in self._known:
            return self._known[node]
        self._computed += 1
        size = node.meta.get("val")
        if isinstance(size, (torch.SymInt, torch.SymFloat)) and str(size) in self._sizes:
            return self._sizes[str(size)]
        func: Any = node.target
        if node.op != "call_function" or self._computed > MOST_NODES or _is_random(func):
            raise _NotKnown
        args, kwargs = map_aggregate((node.args, node.kwargs), self._argument)
        if isinstance(func, torch._ops.OpOverload) and func._schema.is_mutable:  # the program's own, where not widened
            args, kwargs = tree_map_only(torch.Tensor, torch.clone, (args, kwargs))
        try:
            value = func(*args, **kwargs)
        except (RuntimeError, NotImplementedError, TypeError, ValueError, IndexError) as error:
            raise _NotKnown from error
        self._known[node] = value
        return value

    def know(self, values: Mapping[Any, torch.Tensor]) -> None:
        for node, value in values.items():
            if node is not None:
                self._known[node] = value if self._change is None else self._change(value)

    def or_none(self, node: torch.fx.Node | None) -> Any:
        self._computed = 0
        try:
            return self.of(node)
        except _NotKnown:
            return None

    def _argument(self, value: Any) -> Any:
        if isinstance(value, torch.fx.Node):
            return self.of(value)
        if isinstance(value, torch.device):
            return torch.device("cpu")
        if isinstance(value, torch.Tensor):
            raise _NotKnown  # of the device
        return value if self._change is None else wider(value)


def _is_random(func: Any) -> bool:
    name = str(getattr(func, "name", str)()).partition("::")[2]
    return torch.Tag.nondeterministic_seeded in getattr(func, "tags", ()) or name.startswith(_DRAWN)
