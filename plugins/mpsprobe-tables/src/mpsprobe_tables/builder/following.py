"""The registered kernels of a library for ``flow``: where their tensors are, and where in a tensor its dtype lies; and
what following them shows: the dtypes that they refuse, and which always compute with an MPSGraph, and which may.

A kernel hands tensors to a graph as ``Placeholder`` (OperationUtils.h). Where no way through its code leads past making
one, every call does. ``Placeholder`` raises for a tensor whose buffer is empty, so a kernel that does not return early
for tensors without elements cannot take them. Which kernels can reach a graph at all, ``callgraph`` knows.

Where the arguments are says the schema: ``wrap_kernel_functor_unboxed_<…>::call`` takes the functor, the dispatch keys,
and then the arguments as C++ has them (ATen/core/boxing). Apple's calling convention for arm64: eight registers, what
does not fit lies packed on the stack; an object that is not trivial to copy, or longer than 16 bytes, is handed over by
its address.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import torch

from mpsprobe_coverage.knowledge.kernels.kernel_facts import CAST, EMPTY, EMPTY_INPUTS, EVERY, GRAPH, MAY, SAME, Refusal
from mpsprobe_tables.builder.emulator import ARGUMENT_REGISTERS, DECODER
from mpsprobe_tables.builder.flow import ARGUMENTS, RESULT_PLACE, Follower, Outcome
from mpsprobe_tables.builder.flow_memory import Assumed, Frozen, Pointed, tensor
from mpsprobe_tables.builder.flow_values import ALL, IDENTITY, SCALAR_TYPES, Known
from mpsprobe_tables.builder.macho import MachO
from mpsprobe_tables.builder.metal import KernelNames
from mpsprobe_tables.builder.registrations import schemas
from mpsprobe_tables.builder.stubs import CLEAR_MAJORITY, Stubs

BEFORE = 2  # the functor and the dispatch keys
# Type in a schema → size in bytes and how many registers; what lies in memory has one for its address.
_POINTER = (8, 1)
_IN_MEMORY = (
    "Tensor", "Optional[Tensor]", "List[Optional[Tensor]]", "number", "Optional[number]", "Generator",
    "Optional[Generator]", "Optional[List[int]]", "Optional[List[float]]", "Optional[List[number]]", "Optional[str]",
)  # fmt: skip
_IN_TWO = (
    "Optional[int]", "Optional[float]", "str", "List[int]", "List[float]", "List[number]", "List[Tensor]",
)  # fmt: skip
_TYPES = {
    **dict.fromkeys(_IN_MEMORY, _POINTER),
    **dict.fromkeys(_IN_TWO, (16, 2)),
    **dict.fromkeys(("bool", "ScalarType"), (1, 1)),
    **dict.fromkeys(("Optional[bool]", "Optional[ScalarType]", "Optional[Layout]", "Optional[MemoryFormat]"), (2, 1)),
    "int": (8, 1),
    "float": (8, 0),  # in a register of its own kind
    "Optional[Device]": (3, 1),
    "List[bool]": (4, 1),
}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument."""

    name: str
    kind: str  # its type in the schema
    is_out: bool
    # Number of the register, or, from 9 on, of the place of eight bytes on the stack; None on none of these.
    place: int | None


def parameters(schema: Any, symbol: str) -> Iterator[Parameter]:
    """The arguments of ``schema``, up to one of a type that is not known.

    Args:
        schema: a ``torch._C.FunctionSchema``.
        symbol: of the registered function; it tells in which of two ways a few types are handed over.
    """
    register, stack = BEFORE, 0
    for argument in schema.arguments:
        kind = str(argument.real_type)
        if kind == "List[Tensor]" and "ITensorListRef" in symbol:
            known: tuple[int, int] | None = _POINTER
        elif kind == "Optional[int]" and "SymInt" in symbol:
            known = None  # some of them are numbers, others objects
        else:
            known = _TYPES.get(kind)
        if known is None:
            return
        size, count = known
        if not count:
            yield Parameter(argument.name, kind, argument.is_out, None)
        elif register + count <= ARGUMENT_REGISTERS:
            yield Parameter(argument.name, kind, argument.is_out, register)
            register += count
        else:
            register = ARGUMENT_REGISTERS
            align = min(size, 8) if size in (1, 2, 4, 8, 16) else 1
            stack = -(-stack // align) * align
            yield Parameter(argument.name, kind, argument.is_out, stack // 8 + 9 if stack % 8 == 0 else None)
            stack += size


DTYPE_LOAD = re.compile(r"\bldrh w(\d+), \[x\d+, #(?P<offset>0x\w+)\]\ncmp [wx]\1, #0x[12]\w\nb\.h[si] ")


@dataclass(frozen=True, slots=True)
class Kernel:
    """A registered function."""

    operator: str
    address: int  # of the function
    # Its arguments that are a tensor, or may be one, as far as it is known where they are.
    tensors: tuple[Parameter, ...]
    scales: bool  # it has a number that is 1 where a call does not say it: a factor (``alpha``), which nobody sets to 0

    @property
    def inputs(self) -> tuple[Parameter, ...]:
        """Without those that the result is written to."""
        return tuple(p for p in self.tensors if not p.is_out)

    @property
    def certain(self) -> tuple[Parameter, ...]:
        """The inputs that every call has."""
        return tuple(p for p in self.inputs if p.kind == "Tensor")

    @property
    def outs(self) -> tuple[Parameter, ...]:
        """Those that the result is written to."""
        return tuple(p for p in self.tensors if p.is_out)

    def handed(self, followed: Collection[Parameter]) -> tuple[Frozen, ...]:
        """What it is handed when those of ``followed`` are tensors that are followed, and others are not known."""
        handed: list[Frozen] = [None] * ARGUMENTS
        handed[RESULT_PLACE] = Pointed()
        for parameter in self.tensors:
            if parameter.place is not None and parameter.place < ARGUMENTS:
                if parameter in followed:
                    handed[parameter.place] = tensor()
                elif parameter.kind == "Tensor":
                    handed[parameter.place] = tensor(Known.OTHER)
        return tuple(handed)


def kernels_of(library: MachO, registered: Mapping[str, int]) -> Iterator[Kernel]:
    """The kernels of those operators of ``registered`` (operator → function) whose schema the library has."""
    texts = {operator: text for operator, text in schemas(library) if operator in registered}
    for operator, address in sorted(registered.items()):
        if operator in texts:
            schema = torch._C.parse_schema(texts[operator])
            known = parameters(schema, library.symbol_at(address) or "")
            tensors = (p for p in known if p.place is not None and p.kind in ("Tensor", "Optional[Tensor]"))
            scales = any(str(a.real_type) == "number" and a.default_value == 1 for a in schema.arguments)
            yield Kernel(operator, address, tuple(tensors), scales)


def follower_of(library: MachO, stubs: Stubs, names: KernelNames) -> Follower | None:
    """What follows the functions of ``library``; None where it is not known where the dtype of a tensor lies."""
    dtype_at = offset_of_dtype(library)
    set_stubs = {address: stubs.kernels[name] for address, name in stubs.names.items() if name in stubs.kernels}
    return None if dtype_at is None else Follower(library, dtype_at, set_stubs, names)


def offset_of_dtype(library: MachO) -> int | None:
    """Where the dtype lies in a ``TensorImpl``: what MPS code loads and compares with the number of dtypes."""
    counts: Counter[int] = Counter()
    for _, address in library.functions_named("2at6native3mps"):
        code = "\n".join(f"{name} {text}" for _, _, name, text in DECODER.disasm_lite(library.code(address), address))
        counts.update(int(match["offset"], 0) for match in DTYPE_LOAD.finditer(code))
    if not counts:
        return None
    offset, count = counts.most_common(1)[0]
    return offset if count >= CLEAR_MAJORITY * counts.total() else None


WITHOUT_ELEMENTS = ((EMPTY, Assumed(empty=True, filled=False)), (EMPTY_INPUTS, Assumed(empty=True)))


def read_graphs(follower: Follower, kernels: Iterable[Kernel]) -> dict[str, frozenset[str]]:
    """Operator → whether it always makes an operand, and whether it does of which tensors without elements.

    What the labels mean is said in ``kernels/kernel_facts.py``.
    """
    facts = {}
    for kernel in kernels:
        labels = {GRAPH} if _makes(follower, kernel, [*kernel.certain, *kernel.outs], Assumed(same=True)) else set()
        without = (name for name, assumed in WITHOUT_ELEMENTS if _makes(follower, kernel, kernel.certain, assumed))
        labels |= set(islice(without, 1)) if kernel.certain else set()
        if labels:
            facts[kernel.operator] = frozenset(labels)
    return facts


def with_reached(graphs: Mapping[str, frozenset[str]], reached: Iterable[str]) -> dict[str, frozenset[str]]:
    """``graphs`` and the operators of ``reached``, whose code can reach a graph: those that need not go there may."""
    may = {
        operator: graphs.get(operator, frozenset()) | {MAY}
        for operator in reached
        if GRAPH not in graphs.get(operator, ())
    }
    return {**graphs, **may}


def _makes(follower: Follower, kernel: Kernel, followed: Sequence[Parameter], assumed: Assumed) -> bool:
    """Whether it can return, but not without making an operand of a graph."""
    handed = kernel.handed(followed)
    assumed = replace(assumed, nonzero=kernel.scales)
    follower.assumed = replace(assumed, metal_only=True)
    if follower.outcome(kernel.address, handed).returns:
        return False
    follower.assumed = assumed
    return bool(follower.outcome(kernel.address, handed).returns)


COPY, FLOAT32 = "aten::copy_", tensor(Known.FLOAT)
NOWHERE = re.compile(r"float64|complex128|q")  # dtypes that no release has on MPS at all
POSSIBLE = sum(1 << number for number, dtype in SCALAR_TYPES.items() if not NOWHERE.match(dtype))


def read_refusals(follower: Follower, kernels: Iterable[Kernel]) -> dict[str, frozenset[Refusal]]:
    """Operator → what its kernel refuses, for those that refuse something."""
    by_operator = {kernel.operator: _refused(follower, kernel) for kernel in kernels}
    by_operator[COPY] = _casts(follower)
    return {operator: refusals for operator, refusals in by_operator.items() if refusals}


def _casts(follower: Follower) -> frozenset[Refusal]:
    """What ``copy_`` refuses from MPS to MPS where the dtypes differ.

    Up to 2.12 it runs a graph (``copy_cast_mps``), since 2.13 a Metal kernel that is named after both dtypes
    (``copy_cast_kernel_mps`` calls ``exec_unary_kernel``, and that asks ``scalarToMetalTypeString`` for the names).
    """
    refusals: set[Refusal] = set()
    follower.assumed, library = Assumed(), follower.library
    named = any(library.functions_named("20copy_cast_kernel_mpsERNS_6TensorE"))
    function = "23scalarToMetalTypeStringERKN3c1010ScalarTypeE" if named else "13copy_cast_mpsERNS_6TensorE"
    ways = ((Pointed(((0, 1, IDENTITY),)),),) if named else ((FLOAT32, tensor()), (tensor(), FLOAT32))
    for symbol, address in library.functions_named(function):
        if symbol.startswith("__ZN2at6native3mps") and ".cold." not in symbol:
            for handed in ways:
                outcome = follower.outcome(address, (*handed, *[None] * (ARGUMENTS - len(handed))))
                refusals |= set(_refusals(CAST, outcome, ~outcome.returns & POSSIBLE if outcome.returns else 0))
    return frozenset(refusals)


def _refused(follower: Follower, kernel: Kernel) -> frozenset[Refusal]:
    address, certain = kernel.address, kernel.certain
    follower.assumed = Assumed(same=True, nonzero=kernel.scales)
    most = follower.outcome(address, kernel.handed(kernel.tensors))
    less = kernel.handed((*certain, *kernel.outs))
    same = follower.outcome(address, less) if ~most.returns & POSSIBLE else most
    follower.assumed = Assumed(nonzero=kernel.scales)
    if not ~most.returns & POSSIBLE:  # where less is followed, nothing more is refused
        return frozenset()
    outcomes = {parameter.name: follower.outcome(address, kernel.handed([parameter])) for parameter in kernel.inputs}
    if len(certain) > 1:
        outcomes[EVERY] = follower.outcome(address, kernel.handed(certain))
    outcomes[SAME] = same
    alone = ALL
    refusals: set[Refusal] = set()
    for name, outcome in outcomes.items():
        if not outcome.returns:  # registered only to raise
            return frozenset()
        refused = ~outcome.returns & POSSIBLE & (alone if name in (EVERY, SAME) else ALL)
        refusals |= set(_refusals(name, outcome, refused))
        if name in (EVERY, *(p.name for p in certain)):
            alone &= outcome.returns
    return frozenset(refusals)


def _refusals(name: str, outcome: Outcome, refused: int) -> Iterator[Refusal]:
    by_message: dict[str, set[str]] = {}
    for number, dtype in SCALAR_TYPES.items():
        if refused >> number & 1:
            by_message.setdefault(_said(outcome, number), set()).add(dtype)
    for message, dtypes in by_message.items():
        yield Refusal(name, frozenset(dtypes), message)


def _said(outcome: Outcome, number: int) -> str:
    """The one sentence with which dtype ``number`` is refused, and none that may go on is; or nothing."""
    said = [text for text, mask in outcome.messages if mask >> number & 1 and not mask & outcome.returns]
    return said[0] if len(said) == 1 else ""
