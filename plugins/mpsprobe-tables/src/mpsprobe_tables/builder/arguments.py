"""Where a registered kernel finds the arguments of its operator: registers and places on the stack, from the schema.

``wrap_kernel_functor_unboxed_<…>::call`` takes the functor, the dispatch keys, and then the arguments as C++ has them
(ATen/core/boxing). Apple's calling convention for arm64: eight registers, what does not fit lies packed on the stack;
an object that is not trivial to copy, or longer than 16 bytes, is handed over by its address.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from mpsprobe_tables.builder.emulator import Made, run
from mpsprobe_tables.builder.machine import ARGUMENT_REGISTERS
from mpsprobe_tables.builder.macho import MachO
from mpsprobe_tables.builder.registrations import SCHEMA, initialisers

BEFORE = 2  # the functor and the dispatch keys
# Type in a schema → size in bytes and how many registers; what lies in memory has one for its address.
_POINTER = (8, 1)
_TYPES = {
    "Tensor": _POINTER,
    "Optional[Tensor]": _POINTER,
    "List[Optional[Tensor]]": _POINTER,
    "number": _POINTER,
    "Optional[number]": _POINTER,
    "Generator": _POINTER,
    "Optional[Generator]": _POINTER,
    "int": (8, 1),
    "bool": (1, 1),
    "float": (8, 0),  # in a register of its own kind
    "ScalarType": (1, 1),
    "Optional[bool]": (2, 1),
    "Optional[ScalarType]": (2, 1),
    "Optional[Layout]": (2, 1),
    "Optional[MemoryFormat]": (2, 1),
    "Optional[Device]": (3, 1),
    "List[bool]": (4, 1),
    "Optional[int]": (16, 2),
    "Optional[float]": (16, 2),
    "str": (16, 2),
    "List[int]": (16, 2),
    "List[float]": (16, 2),
    "List[number]": (16, 2),
    "List[Tensor]": (16, 2),
    "Optional[List[int]]": _POINTER,
    "Optional[List[float]]": _POINTER,
    "Optional[List[number]]": _POINTER,
    "Optional[str]": _POINTER,
}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument.

    Attributes:
        kind: its type in the schema.
        place: number of the register, or, from 9 on, of the place of eight bytes on the stack; None on none of these.
    """

    name: str
    kind: str
    is_out: bool
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


def read_schemas(library: MachO, wanted: Collection[str]) -> dict[str, Any]:
    """Operator → its schema, for those of ``wanted`` that the library defines."""
    found = {}
    for initialiser in initialisers(library):
        if initialiser.kind != "IMPL_":
            for event in run(library, initialiser.address):
                text = library.string_at(event.address) if isinstance(event, Made) else None
                match = SCHEMA.match(text or "")
                if match is not None:
                    operator = f"{match['namespace'] or initialiser.namespace}::{match['name']}"
                    if operator in wanted:
                        found[operator] = torch._C.parse_schema(match[0])
    return found
