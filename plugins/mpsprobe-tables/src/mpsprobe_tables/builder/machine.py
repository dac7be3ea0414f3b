"""What is known of registers and memory while one function is read: see ``emulator``.

Strings are read as libc++ lays out ``std::string``: 24 bytes that hold up to 22 characters themselves and their length
in the last byte, or, where that has its highest bit set, the address and the length of the characters.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

STACK = 0  # region number of the function's own stack frame
SP = 31
ARGUMENT_REGISTERS, ARGUMENTS = 8, 12  # how many arguments are in registers, and are looked at
LENGTH_AT, LONG = 23, 0x80
LONGEST_STRING = 4096
K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Place:
    """An address in the stack frame or in memory that the function allocated: region and offset in bytes."""

    region: int
    offset: int


@dataclass(frozen=True, slots=True)
class Incoming:
    """What the caller hands over: ``index`` is an argument register, or from 8 on a place of 8 bytes on the stack."""

    index: int


Value = int | Place | Incoming | frozenset[int] | None
"""A number or absolute address; an address in the function's own memory; an argument; one of some numbers; unknown."""
MOST_ALTERNATIVES = 8


def either(one: Value, other: Value) -> Value:
    """What is known of a value that is one of two."""
    if one == other:
        return one
    numbers = {*_numbers(one), *_numbers(other)}
    if any(value is None or isinstance(value, (Place, Incoming)) for value in (one, other)):
        return None
    return frozenset(numbers) if len(numbers) <= MOST_ALTERNATIVES else None


def _numbers(value: Value) -> frozenset[int]:
    return value if isinstance(value, frozenset) else frozenset({value} if isinstance(value, int) else ())


@dataclass(slots=True)
class State:
    """Known registers and known bytes of memory at one instruction."""

    registers: dict[int, Value] = field(default_factory=lambda: {SP: Place(STACK, 0)})
    vectors: dict[int, bytes] = field(default_factory=dict)
    memory: dict[tuple[int, int], int] = field(default_factory=dict)
    pointers: dict[tuple[int, int], Place | Incoming] = field(default_factory=dict)

    @classmethod
    def at_entry(cls) -> State:
        """Where a function begins."""
        return cls({SP: Place(STACK, 0), **{index: Incoming(index) for index in range(ARGUMENT_REGISTERS)}})

    def argument(self, index: int) -> Value:
        """What is handed over when a function is called now; numbered as ``Incoming`` is."""
        if index < ARGUMENT_REGISTERS:
            return self.registers.get(index)
        top = self.registers.get(SP)
        if not isinstance(top, Place):
            return None
        return self.pointers.get((top.region, top.offset + 8 * (index - ARGUMENT_REGISTERS)))

    def copy(self) -> State:
        return State(dict(self.registers), dict(self.vectors), dict(self.memory), dict(self.pointers))

    def meet(self, other: State) -> None:
        """Keep what holds in both."""
        registers = {r: either(value, other.registers.get(r)) for r, value in self.registers.items()}
        self.registers = {r: value for r, value in registers.items() if value is not None}
        self.vectors = _alike(self.vectors, other.vectors)
        self.memory = _alike(self.memory, other.memory)
        self.pointers = _alike(self.pointers, other.pointers)

    def string(self, value: Value) -> str | None:
        """The text of the ``std::string`` at ``value``, when all of it is known."""
        if not isinstance(value, Place):
            return None
        last = self.memory.get((value.region, value.offset + LENGTH_AT))
        if last is None:
            return None
        if last < LONG:
            return self._text(value, last)
        start = self.pointers.get((value.region, value.offset))
        size = [self.memory.get((value.region, value.offset + 8 + index)) for index in range(8)]
        if not isinstance(start, Place) or any(byte is None for byte in size):
            return None
        return self._text(start, sum(byte << 8 * index for index, byte in enumerate(size) if byte))

    def _text(self, start: Place, length: int) -> str | None:
        if length > LONGEST_STRING:
            return None
        found = [self.memory.get((start.region, start.offset + index)) for index in range(length)]
        if any(byte is None for byte in found):
            return None
        return bytes(byte for byte in found if byte is not None).decode("ascii", "replace")


def _alike(mine: dict[K, V], theirs: dict[K, V]) -> dict[K, V]:
    return {key: value for key, value in mine.items() if theirs.get(key) == value}
