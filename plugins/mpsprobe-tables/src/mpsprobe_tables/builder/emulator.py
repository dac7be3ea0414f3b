"""What one arm64 function calls and stores, with the arguments that its code makes from constants.

The code is run once from top to bottom on values that are known or unknown: no loops, both ways of every branch, and
where two ways meet, what differs between them becomes unknown. That is enough to read which string literal or which
global object is handed to a function: compilers build short strings from immediates on the stack, and long ones with
copies from the C strings. What is not decoded makes its result unknown, never wrong. (Encodings: Arm Architecture
Reference Manual, C4.1 and C6.2; calling convention: AAPCS64.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from mpsprobe_tables.builder.machine import ARGUMENT_REGISTERS, STACK, Incoming, Place, State, Value, either

CLOBBERED = (*range(18), 30)
MASK = (1 << 64) - 1


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


def run(
    code: Sequence[int],
    address: int,
    constant: Callable[[int, int], bytes | None],
    allocates: Callable[[int], bool],
) -> Iterator[Event]:
    """What ``code``, which lies at ``address``, does, in the order of the code.

    Args:
        constant: the bytes of that length at that absolute address, where they never change; else None.
        allocates: whether the function at that address returns new memory.
    """
    return _Run(code, address, constant, allocates).events()


class _Run:
    def __init__(
        self,
        code: Sequence[int],
        address: int,
        constant: Callable[[int, int], bytes | None],
        allocates: Callable[[int], bool],
    ) -> None:
        self.code, self.start, self.end = code, address, address + 4 * len(code)
        self.constant, self.allocates = constant, allocates
        self.state = State.at_entry()
        self.waiting: dict[int, State] = {}
        self.regions = STACK

    def events(self) -> Iterator[Event]:
        reachable = True
        here = self.start - 4
        for word in self.code:
            here += 4
            arriving = self.waiting.pop(here, None)
            if arriving is not None:
                if reachable:
                    self.state.meet(arriving)
                else:
                    self.state = arriving
            elif not reachable:
                self.state = State()  # only exception handling comes here
            reachable = True
            group = word >> 25 & 0xF
            if group & 0xE == 0xA:  # branches
                target = _branch(word, here)
                if word & 0x7C000000 == 0x14000000:
                    assert target is not None
                    if word >> 31:
                        yield Call(here, target, self.state)
                        self._clobber(target)
                    else:
                        if self.start <= target < self.end:
                            self._leave(target, here)
                        else:
                            yield Call(here, target, self.state)
                        reachable = False
                elif word & 0xFE000000 == 0xD6000000:  # br, blr, ret
                    if word & 0x00600000 == 0x00200000:
                        self._clobber(None)
                    else:
                        reachable = False
                elif target is not None:
                    self._leave(target, here)
            elif group & 0x5 == 0x4:
                yield from self._memory(word)
            elif group & 0xE == 0x8:
                made = self._immediate(word, here)
                if made is not None:
                    yield Made(made)
            elif group & 0x7 == 0x5:
                self._register(word)
            else:
                self.state.vectors.pop(word & 31, None)
                self.state.registers.pop(word & 31, None)
                if word & 0x9FFFFFE0 == 0x0F00E400:  # movi: zeros
                    self.state.vectors[word & 31] = bytes(16)

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
        if target is not None and self.allocates(target):
            self.regions += 1
            registers[0] = Place(self.regions, 0)

    def _set(self, register: int, value: Value) -> None:
        if value is None:
            self.state.registers.pop(register, None)
        else:
            self.state.registers[register] = value

    def _get(self, register: int) -> Value:
        """The value of a register where 31 means zero."""
        return 0 if register == 31 else self.state.registers.get(register)

    def _immediate(self, word: int, here: int) -> int | None:
        """Data processing with an immediate; returns an address that became known."""
        register, wide = word & 31, word >> 31
        if word & 0x1F000000 == 0x10000000:  # adr, adrp
            offset = _signed((word >> 5 & 0x7FFFF) << 2 | word >> 29 & 3, 21)
            value = (here & ~0xFFF) + (offset << 12) if wide else here + offset
            self._set(register, value)
            return None if wide else value
        if word & 0x1F800000 == 0x11000000:  # add, sub
            amount = word >> 10 & 0xFFF
            amount = amount << 12 if word & 0x400000 else amount
            if word & 0x40000000:
                amount = -amount
            source = self.state.registers.get(word >> 5 & 31)
            if word & 0x20000000:  # it sets the flags, and 31 is no stack pointer
                if register != 31:
                    self._set(register, None)
                return None
            if isinstance(source, Place) and wide:
                self._set(register, Place(source.region, source.offset + amount))
            elif isinstance(source, int):
                value = source + amount & (MASK if wide else 0xFFFFFFFF)
                self._set(register, value)
                return value if wide else None
            else:
                self._set(register, None)
            return None
        if word & 0x1F800000 == 0x12800000:  # movn, movz, movk
            shift, part, kind = 16 * (word >> 21 & 3), word >> 5 & 0xFFFF, word >> 29 & 3
            mask = MASK if wide else 0xFFFFFFFF
            old = self._get(register)
            if kind == 0:
                self._set(register, ~(part << shift) & mask)
            elif kind == 2:
                self._set(register, part << shift)
            elif kind == 3 and isinstance(old, int):
                self._set(register, (old & ~(0xFFFF << shift) | part << shift) & mask)
            else:
                self._set(register, None)
            return None
        if word & 0x7F800000 == 0x32000000 and word >> 5 & 31 == 31:  # orr with zero: a repeating pattern
            self._set(register, _pattern(word))
            return None
        if register != 31 or word & 0x1F800000 != 0x12000000:
            self._set(register, None)
        return None

    def _register(self, word: int) -> None:
        """Data processing with registers: only ``mov`` and ``csel`` are followed."""
        register = word & 31
        if word & 0xFFE00C00 == 0x9A800000 and register != 31:
            self._set(register, either(self._get(word >> 5 & 31), self._get(word >> 16 & 31)))
            return
        if word & 0x7FE0FFE0 == 0x2A0003E0:
            value = self._get(word >> 16 & 31)
            if not word >> 31:
                value = value & 0xFFFFFFFF if isinstance(value, int) else None
            if register != 31:
                self._set(register, value)
        elif register != 31:
            self._set(register, None)

    def _memory(self, word: int) -> Iterator[Store]:
        """Loads and stores."""
        vector = word >> 26 & 1
        base = word >> 5 & 31
        if word & 0x3A000000 == 0x28000000:  # pairs
            size = 4 << (word >> 31) if not vector else 4 << (word >> 30)
            offset = _signed(word >> 15 & 0x7F, 7) * size
            mode, loads = word >> 23 & 3, word >> 22 & 1
            registers: tuple[int, ...] = (word & 31, word >> 10 & 31)
        elif word & 0x3A000000 == 0x38000000:
            size = 1 << (word >> 30)
            option = word >> 22 & 3
            if vector and option & 2:
                size, option = 16, option & 1
            loads = int(option != 0)
            registers = (word & 31,)
            if word & 0x01000000:
                offset, mode = (word >> 10 & 0xFFF) * size, 2
            elif word & 0x00200000:  # a register as offset, or an atomic
                self._unknown(word, vector)
                return
            else:
                offset = _signed(word >> 12 & 0x1FF, 9)
                mode = {0: 2, 1: 1, 2: 2, 3: 3}[word >> 10 & 3]
            if option >= 2 and not vector:  # sign extension
                self._unknown(word, vector)
                loads = 2
        else:
            self._unknown(word, vector)
            return
        origin = self.state.registers.get(base)
        at = origin if mode == 1 else _moved(origin, offset)
        if loads == 1:
            for index, register in enumerate(registers):
                self._load(register, _moved(at, index * size), size, vector)
        elif loads == 0:
            for index, register in enumerate(registers):
                yield from self._store(register, _moved(at, index * size), size, vector)
        if mode in (1, 3):
            self._set(base, _moved(origin, offset))

    def _unknown(self, word: int, vector: int) -> None:
        if vector:
            self.state.vectors.pop(word & 31, None)
        elif word & 31 != 31:
            self._set(word & 31, None)

    def _load(self, register: int, at: Value, size: int, vector: int) -> None:
        found: bytes | None = None
        if isinstance(at, Place):
            pointer = self.state.pointers.get((at.region, at.offset)) if size == 8 and not vector else None
            if pointer is not None:
                self._set(register, pointer)
                return
            if at.region == STACK and at.offset >= 0 and size == 8 and not vector:  # above the frame: an argument
                self._set(register, Incoming(ARGUMENT_REGISTERS + at.offset // 8))
                return
            known = [self.state.memory.get((at.region, at.offset + index)) for index in range(size)]
            if all(byte is not None for byte in known):
                found = bytes(byte for byte in known if byte is not None)
        elif isinstance(at, int):
            found = self.constant(at, size)
        if vector:
            if found is None:
                self.state.vectors.pop(register, None)
            else:
                self.state.vectors[register] = found.ljust(16, b"\0")
        elif register != 31:
            self._set(register, None if found is None else int.from_bytes(found, "little"))

    def _store(self, register: int, at: Value, size: int, vector: int) -> Iterator[Store]:
        value: Value
        content: bytes | None
        if vector:
            value, content = None, self.state.vectors.get(register)
        else:
            value = self._get(register)
            content = (value & MASK).to_bytes(8, "little") if isinstance(value, int) else None
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


def _branch(word: int, here: int) -> int | None:
    if word & 0x7C000000 == 0x14000000:  # b, bl
        return here + 4 * _signed(word & 0x3FFFFFF, 26)
    if word & 0xFF000010 == 0x54000000 or word & 0x7E000000 == 0x34000000:  # b.cond, cbz, cbnz
        return here + 4 * _signed(word >> 5 & 0x7FFFF, 19)
    if word & 0x7E000000 == 0x36000000:  # tbz, tbnz
        return here + 4 * _signed(word >> 5 & 0x3FFF, 14)
    return None


def _pattern(word: int) -> int | None:
    """The immediate of a logical instruction (DecodeBitMasks in the manual)."""
    wide, ones, rotation, n = word >> 31, word >> 10 & 0x3F, word >> 16 & 0x3F, word >> 22 & 1
    length = ((n << 6) | (~ones & 0x3F)).bit_length() - 1
    if length < 1:
        return None
    size = 1 << length
    ones, rotation = ones & size - 1, rotation & size - 1
    element = (1 << ones + 1) - 1
    element = (element >> rotation | element << size - rotation) & (1 << size) - 1
    width = 64 if wide else 32
    return sum(element << shift for shift in range(0, width, size)) & (1 << width) - 1


def _signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value
