"""Values while a function is followed for every dtype at once: see ``flow``.

A set of dtypes is a number with one bit for each ``ScalarType``; a value that depends on the dtype holds one number for
each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum

SCALAR_TYPES: Mapping[int, str] = {
    0: "uint8",
    1: "int8",
    2: "int16",
    3: "int32",
    4: "int64",
    5: "float16",
    6: "float32",
    7: "float64",
    8: "complex32",
    9: "complex64",
    10: "complex128",
    11: "bool",
    12: "qint8",
    13: "quint8",
    14: "qint32",
    15: "bfloat16",
    16: "quint4x2",
    17: "quint2x4",
    23: "float8_e5m2",
    24: "float8_e4m3fn",
    25: "float8_e5m2fnuz",
    26: "float8_e4m3fnuz",
    27: "uint16",
    28: "uint32",
    29: "uint64",
    44: "float8_e8m0fnu",
    45: "float4_e2m1fn_x2",
}
"""Number → dtype (c10/core/ScalarType.h; numbers are only ever added); those of 1 to 7 bits are left out."""
COUNT = 64  # more than there are
ALL = sum(1 << number for number in SCALAR_TYPES)


class Known(Enum):
    """What is known of a value that is not a number.

    ``TENSOR`` is the address of a ``TensorImpl`` on MPS whose dtype is followed, ``HOST`` one on the CPU, ``FLOAT`` one
    of float32 on MPS, ``OTHER`` one of another tensor, ``TABLE`` a table of virtual functions of these, ``CUSTOM`` one
    of these functions, ``POSITIVE`` a number above zero, ``UNEQUAL`` the flags of two numbers that
    differ.
    """

    TENSOR = "tensor"
    HOST = "host"
    FLOAT = "float"
    OTHER = "other"
    TABLE = "table"
    CUSTOM = "custom"
    POSITIVE = "positive"
    UNEQUAL = "unequal"


TENSORS = (Known.TENSOR, Known.HOST, Known.FLOAT, Known.OTHER)


@dataclass(frozen=True, slots=True)
class At:
    """An address in memory that the function knows: its frame, or what an argument points to."""

    region: int
    offset: int


@dataclass(frozen=True, slots=True)
class Field:
    """An address inside of a ``TensorImpl``, or of its table of virtual functions."""

    owner: Known
    offset: int


Each = tuple[int | None, ...]
Value = int | Each | At | Field | Known | None
"""A number; one for each dtype (None where it is not known); an address; something else; not known."""
IDENTITY: Each = tuple(range(COUNT))
Memory = dict[tuple[int, int], tuple[int, Value]]
"""Region and offset → size in bytes and value."""


def lifted(function: Callable[..., int | None], *values: Value) -> Value:
    """``function`` of numbers, for each dtype where one of them depends on it."""
    if all(isinstance(value, int) for value in values):
        return function(*values)
    if any(not isinstance(value, (int, tuple)) for value in values):
        return None
    columns = [value if isinstance(value, tuple) else (value,) * COUNT for value in values]
    return tuple(None if None in row else function(*row) for row in zip(*columns, strict=True))


def where(value: Value, mask: int, test: Callable[[int], bool | None]) -> tuple[int, int]:
    """The dtypes of ``mask`` with which ``test`` may hold of ``value``, and those with which it may not."""
    if value is Known.POSITIVE:
        value = 1 if test(1) == test(2) == test(1 << 20) else None
    if value is Known.UNEQUAL:  # the first is less: N; it is greater: C
        either = test(0b1000), test(0b0010)
        return (mask if any(either) else 0), (0 if all(either) else mask)
    if isinstance(value, int):
        value = (value,) * COUNT
    if not isinstance(value, tuple):
        return mask, mask
    yes = no = 0
    for number in SCALAR_TYPES:
        bit = 1 << number
        if mask & bit:
            known = value[number]
            held = None if known is None else test(known)
            yes |= bit if held is not False else 0
            no |= bit if held is not True else 0
    return yes, no


def joined(one: Value, mask: int, other: Value, others: int) -> Value:
    """A value that is ``one`` with the dtypes of ``mask`` and ``other`` with ``others``."""
    if one == other or not others:
        return one
    if not mask:
        return other
    pair = {one, other}
    if pair <= {Known.TENSOR, Known.OTHER}:
        return Known.OTHER
    if Known.POSITIVE in pair:  # the sizes of a tensor lie in it, or, where they are many, at an address that it holds
        return next((value for value in (one, other) if isinstance(value, Field)), None)
    if any(isinstance(value, (At, Field, Known)) for value in pair):
        return None
    columns = [value if isinstance(value, tuple) else (value,) * COUNT for value in (one, other)]
    made = tuple(
        (a if a == b else None) if mask & others & 1 << d else a if mask >> d & 1 else b if others >> d & 1 else None
        for d, (a, b) in enumerate(zip(*columns, strict=True))
    )
    return None if all(value is None for value in made) else made


@dataclass(slots=True)
class Point:
    """What is known at one instruction."""

    mask: int  # the dtypes with which it is reached
    registers: dict[int, Value]
    memory: Memory
    flags: Value = None  # of the last comparison, as bits ``NZCV``
    texts: tuple[str, ...] = field(default=())  # the sentences whose addresses were taken last
    aside: bool = False  # a bit of something that is not known was set, and nothing has been asked or called since
    named: bool = False  # the last name of a Metal type was asked for with the dtype that is followed

    def copy(self, mask: int) -> Point:
        registers, memory = dict(self.registers), dict(self.memory)
        return Point(mask, registers, memory, self.flags, self.texts, self.aside, self.named)

    def join(self, other: Point) -> bool:
        """Keep what holds in both; whether that changes anything here."""
        masks = self.mask, other.mask
        registers: dict[int, Value] = {}
        for register in self.registers.keys() | other.registers.keys():
            value = joined(self.registers.get(register), masks[0], other.registers.get(register), masks[1])
            if value is not None:
                registers[register] = value
        memory: Memory = {}
        for place in self.memory.keys() | other.memory.keys():
            mine, theirs = self.memory.get(place), other.memory.get(place)
            if mine == theirs and mine is not None:
                memory[place] = mine
                continue
            size = (mine or theirs or (0, None))[0]
            if mine is None or theirs is None or mine[0] == theirs[0]:
                value = joined(mine and mine[1], masks[0], theirs and theirs[1], masks[1])
                if value is not None:
                    memory[place] = size, value
        flags = joined(self.flags, masks[0], other.flags, masks[1])
        before = self.mask, self.registers, self.memory, self.flags
        self.mask, self.registers, self.memory, self.flags = masks[0] | masks[1], registers, memory, flags
        if self.texts != other.texts:
            self.texts = ()
        self.aside &= other.aside
        self.named &= other.named
        return before != (self.mask, registers, memory, flags)
