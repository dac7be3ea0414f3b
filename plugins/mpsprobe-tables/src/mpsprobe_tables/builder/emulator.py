"""What one arm64 function calls and stores, with the arguments that its code makes from constants.

The code, decoded by capstone, is run once from top to bottom on values that are known or unknown: no loops, both ways
of every branch, and where two ways meet, what differs between them becomes unknown. That is enough to read which string
literal or which global object is handed to a function: compilers build short strings from immediates on the stack, and
long ones with copies from the C strings. What is not followed makes its result unknown, never wrong.
(Calling convention: AAPCS64.)

Strings are read as libc++ lays out ``std::string``: 24 bytes that hold up to 22 characters themselves and their length
in the last byte, or, where that has its highest bit set, the address and the length of the characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import capstone

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
        content = [self.memory.get((start.region, start.offset + index)) for index in range(length)]
        if any(byte is None for byte in content):
            return None
        return bytes(byte for byte in content if byte is not None).decode("ascii", "replace")


def _alike(mine: dict[K, V], theirs: dict[K, V]) -> dict[K, V]:
    return {key: value for key, value in mine.items() if theirs.get(key) == value}


ALLOCATION = "__Znwm"  # operator new: it returns memory that nobody else knows
CLOBBERED = (*range(18), 30)
MASKS = {"w": (1 << 32) - 1, "x": (1 << 64) - 1, "s": (1 << 64) - 1}  # by the first letter of a register; s of sp
GENERAL = {f"{letter}{number}": number for letter in "wx" for number in range(31)} | {"sp": SP, "wsp": SP}
VECTORS = {f"{letter}{number}": number for letter in "bhsdqvz" for number in range(32)}
WIDTHS = {"b": 1, "h": 2, "w": 4, "s": 4, "x": 8, "d": 8, "q": 16}
CONDITIONAL = frozenset({"cbz", "cbnz", "tbz", "tbnz"})
WITHOUT_RESULT = frozenset({"cmp", "cmn", "tst", "ccmp", "ccmn", "fcmp", "fcmpe", "fccmp", "fccmpe"})
TRANSFERS = {  # loads and stores that are followed: how many bytes of each register, where its name does not say it
    f"{verb}{way}{suffix}": width
    for verb in ("ld", "st")
    for way in ("r", "ur", "p", "np")
    for suffix, width in (("", None), ("b", 1), ("h", 2))
}
MEMORY = re.compile(
    r"(?P<registers>\w+(?:, \w+)?), \[(?P<base>\w+)(?:, #(?P<offset>-?\w+))?\](?P<before>!)?(?:, #(?P<after>-?\w+))?"
)

DECODER = capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_ARM)
DECODER.skipdata = True  # what is no instruction is decoded as ".byte"


@dataclass(frozen=True, slots=True)
class Call:
    """A call, or a jump out of the function: the address that is called, and the state in which it happens."""

    address: int
    target: int
    state: State

    def argument(self, index: int) -> Value:
        return self.state.argument(index)


@dataclass(frozen=True, slots=True)
class Store:
    """A known value written to a known absolute address."""

    address: int
    value: int


@dataclass(frozen=True, slots=True)
class Made:
    """An absolute address that the code puts into a register."""

    address: int


Event = Call | Store | Made


class Library(Protocol):
    """What a function is read from: ``macho.MachO``."""

    def code(self, address: int) -> bytes: ...

    def constant(self, address: int, length: int) -> bytes | None: ...

    def symbol_at(self, address: int) -> str | None: ...


def run(library: Library, address: int) -> Iterator[Event]:
    """What the function at ``address`` does, in the order of its code."""
    return _Run(library, address).events()


class _Run:
    def __init__(self, library: Library, address: int) -> None:
        self.library, self.code, self.start = library, library.code(address), address
        self.end = address + len(self.code)
        self.state = State.at_entry()
        self.waiting: dict[int, State] = {}
        self.regions = STACK

    def events(self) -> Iterator[Event]:
        reachable = True
        for here, _, name, operands in DECODER.disasm_lite(self.code, self.start):
            arriving = self.waiting.pop(here, None)
            if arriving is not None:
                if reachable:
                    self.state.meet(arriving)
                else:
                    self.state = arriving
            elif not reachable:
                self.state = State()  # only exception handling comes here
            reachable = True
            if name == "bl":
                yield Call(here, immediate(operands), self.state)
                self._clobber(immediate(operands))
            elif name == "b":
                target = immediate(operands)
                if self.start <= target < self.end:
                    self._leave(target, here)
                else:
                    yield Call(here, target, self.state)
                reachable = False
            elif name == "blr":
                self._clobber(None)
            elif name in ("br", "ret"):
                reachable = False
            elif name.startswith("b.") or name in CONDITIONAL:
                self._leave(immediate(operands.rpartition(" ")[2]), here)
            elif name == ".byte":
                self.state = State()
            elif access := MEMORY.fullmatch(operands):
                yield from self._memory(name, access)
            elif name not in WITHOUT_RESULT:
                made = self._compute(name, operands)
                if made is not None:
                    yield Made(made)

    def _leave(self, target: int, here: int) -> None:
        if target <= here:
            return
        waiting = self.waiting.get(target)
        if waiting is None:
            self.waiting[target] = self.state.copy()
        else:
            waiting.meet(self.state)

    def _clobber(self, target: int | None) -> None:
        registers = self.state.registers
        for register in CLOBBERED:
            registers.pop(register, None)
        self.state.vectors.clear()
        if target is not None and self.library.symbol_at(target) == ALLOCATION:
            self.regions += 1
            registers[0] = Place(self.regions, 0)

    def _set(self, register: str, value: Value) -> None:
        """Names of no register, and of the one that is always zero, are passed over."""
        number = GENERAL.get(register)
        if number is None:
            self.state.vectors.pop(VECTORS.get(register.partition(".")[0], -1), None)
        elif value is None:
            self.state.registers.pop(number, None)
        else:
            self.state.registers[number] = value

    def _get(self, register: str) -> Value:
        return 0 if register in ("xzr", "wzr") else self.state.registers.get(GENERAL.get(register, -1))

    def _compute(self, name: str, operands: str) -> int | None:
        """Instructions other than branches, loads and stores; returns an address that became known."""
        parts = operands.split(", ")
        register, rest = parts[0], parts[1:]
        match name, rest:
            case "adr" | "adrp", [place]:
                self._set(register, immediate(place))
                return immediate(place) if name == "adr" else None
            case "add" | "sub", [source, amount, *shift] if amount.startswith("#"):
                value = self._get(source)
                number = immediate(amount) << (12 if shift else 0)
                if isinstance(value, Place) and register[0] == "w":
                    value = None
                moved = _moved(value, number if name == "add" else -number)
                if isinstance(moved, int):
                    moved &= MASKS[register[0]]
                self._set(register, moved)
                return moved if isinstance(moved, int) and register[0] != "w" else None
            case "mov", [source] if register in GENERAL and source.startswith("#"):
                self._set(register, immediate(source) & MASKS[register[0]])
            case "mov", [source] if register[0] == "w":
                value = self._get(source)
                self._set(register, value & MASKS["w"] if isinstance(value, int) else None)
            case "mov", [source] if register in GENERAL:
                self._set(register, self._get(source))
            case "movk", [part, *shift]:
                value = self._get(register)
                by = immediate(shift[0].removeprefix("lsl ")) if shift else 0
                if isinstance(value, int):
                    self._set(register, value & ~(0xFFFF << by) | immediate(part) << by)
            case "csel", [one, other, _] if register[0] == "x":
                self._set(register, either(self._get(one), self._get(other)))
            case "movi", [part] if not part.strip("#0"):
                self.state.vectors[VECTORS[register.partition(".")[0]]] = bytes(16)
            case _:
                written = operands[1:].partition("}")[0].split(", ") if operands.startswith("{") else [register]
                for each in written:
                    self._set(each, None)
        return None

    def _memory(self, name: str, access: re.Match[str]) -> Iterator[Store]:
        """Loads and stores at an offset that the instruction says."""
        base, offset = access["base"], int(access["offset"] or "0", 0)
        origin = self._get(base)
        at = _moved(origin, offset)
        registers = access["registers"].split(", ")
        if name not in TRANSFERS or registers[0][0] not in WIDTHS:  # with a sign, atomic, or of unknown length
            for register in registers:
                self._set(register, None)
        elif name.startswith("ld"):
            for index, register in enumerate(registers):
                size = TRANSFERS[name] or WIDTHS[register[0]]
                self._load(register, _moved(at, index * size), size)
        else:
            for index, register in enumerate(registers):
                size = TRANSFERS[name] or WIDTHS[register[0]]
                yield from self._store(register, _moved(at, index * size), size)
        if access["before"] or access["after"]:
            self._set(base, _moved(origin, offset or int(access["after"] or "0", 0)))

    def _load(self, register: str, at: Value, size: int) -> None:
        vector = VECTORS.get(register)
        text: bytes | None = None
        if isinstance(at, Place):
            pointer = self.state.pointers.get((at.region, at.offset)) if size == 8 and vector is None else None
            if pointer is not None:
                self._set(register, pointer)
                return
            if at.region == STACK and at.offset >= 0 and size == 8 and vector is None:  # above the frame: an argument
                self._set(register, Incoming(ARGUMENT_REGISTERS + at.offset // 8))
                return
            known = [self.state.memory.get((at.region, at.offset + index)) for index in range(size)]
            if all(byte is not None for byte in known):
                text = bytes(byte for byte in known if byte is not None)
        elif isinstance(at, int):
            text = self.library.constant(at, size)
        if vector is None or text is None:
            self._set(register, None if text is None else int.from_bytes(text, "little"))
        else:
            self.state.vectors[vector] = text.ljust(16, b"\0")

    def _store(self, register: str, at: Value, size: int) -> Iterator[Store]:
        value: Value
        content: bytes | None
        if register in VECTORS:
            value, content = None, self.state.vectors.get(VECTORS[register])
        else:
            value = self._get(register)
            content = (value & MASKS["x"]).to_bytes(8, "little") if isinstance(value, int) else None
        if isinstance(at, int):
            if isinstance(value, int):
                yield Store(at, value)
            return
        if not isinstance(at, Place):
            return
        memory, pointers = self.state.memory, self.state.pointers
        for index in range(-7, size):
            pointers.pop((at.region, at.offset + index), None)
        for index in range(size):
            if content is None:
                memory.pop((at.region, at.offset + index), None)
            else:
                memory[at.region, at.offset + index] = content[index]
        if isinstance(value, (Place, Incoming)) and size == 8:
            pointers[at.region, at.offset] = value


def _moved(value: Value, offset: int) -> Value:
    if isinstance(value, Place):
        return Place(value.region, value.offset + offset)
    return value + offset if isinstance(value, int) else None


def immediate(operand: str) -> int:
    """``#0x10``, as capstone writes constants and addresses."""
    return int(operand.removeprefix("#"), 0)
