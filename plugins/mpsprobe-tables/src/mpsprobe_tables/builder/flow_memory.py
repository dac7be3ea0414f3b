"""Registers and memory while a function is followed for every dtype at once: see ``flow``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from mpsprobe_tables.builder import flow_arithmetic as arithmetic
from mpsprobe_tables.builder.emulator import GENERAL, WIDTHS, immediate
from mpsprobe_tables.builder.flow_values import IDENTITY, At, Each, Field, Known, Memory, Point, Value
from mpsprobe_tables.builder.macho import MachO

DEEPEST_POINTER = 2
OBJECT, SNAPSHOT = 24, 256  # bytes of what an argument points to that are handed over: of an object, of a block
CUSTOM_FUNCTIONS = range(0x18, 0x78)  # in the table of virtual functions, behind those of intrusive_ptr_target
DEVICES: Mapping[Value, int] = {Known.TENSOR: 13, Known.HOST: 0, Known.FLOAT: 13}  # c10/core/DeviceType.h
FLOAT32 = 6
FRAME = 0  # region of the stack frame; those of the arguments are numbered from 1
ADDRESS = re.compile(
    r"\[(?P<base>\w+)(?:, (?:#(?P<offset>-?\w+)|(?P<index>[wx]\w+)(?:, (?P<extend>\w+)(?: #(?P<by>\w+))?)?))?\]"
    r"(?P<before>!)?(?:, #(?P<after>-?\w+))?$"
)
LOADS = re.compile(r"ld(?:r|ur|p|np|apr|ar)(?P<sign>s)?(?P<width>[bhw])?$")
STORES = re.compile(r"st(?:r|ur|p|np|lr)(?P<width>[bh])?$")
BYTES = {"b": 1, "h": 2, "w": 4}


NUMEL, SIZES = -8, range(-0x60, -0x38, 8)  # from where the dtype is: the number of elements, and five sizes


@dataclass(frozen=True, slots=True)
class Assumed:
    """What holds of the tensors beyond a dtype."""

    same: bool = False  # the results that a structured kernel is handed have the dtype that is followed, too
    empty: bool = False  # those that are followed have no elements
    filled: bool = True  # all others have elements; if not, either may be
    nonzero: bool = False  # numbers that are compared with zero are not zero
    metal_only: bool = False  # making an operand of an MPSGraph counts as a raise. The macOS is a new one


@dataclass(frozen=True, slots=True)
class Pointed:
    """An address as one function hands it to another: offset, size and value of what is known to lie there."""

    known: tuple[tuple[int, int, Frozen], ...] = ()

    @property
    def is_tensor(self) -> bool:
        """Whether it is a ``const Tensor&`` whose dtype is followed."""
        return any(offset == 0 and value in DEVICES for offset, _, value in self.known)

    @property
    def tells_dtype(self) -> bool:
        """Whether what is followed lies there, or can be got from there."""
        return any(tells_dtype(value) for _, _, value in self.known)


Frozen = int | Each | Known | Pointed | None
"""A value as one function hands it to another."""


def tensor(known: Known = Known.TENSOR) -> Pointed:
    """A ``const Tensor&``."""
    return Pointed(((0, 8, known),))


def tells_dtype(value: Frozen) -> bool:
    """Whether ``value`` depends on the dtype, or leads to it."""
    return value.tells_dtype if isinstance(value, Pointed) else value in DEVICES or isinstance(value, tuple)


@dataclass
class Machine:
    """Runs instructions other than branches and calls."""

    library: MachO
    dtype_at: int  # offset of the dtype in a ``TensorImpl``
    first_region: int
    assumed: Assumed  # what holds of the tensors
    point: Point = field(default_factory=lambda: Point(0, {}, {}))  # what is known now
    assigned: set[int] = field(default_factory=set)  # the regions, other than the frame, that were written to
    regions: int = 0  # how many regions there are besides the frame and the arguments

    def _thawed(self, value: Frozen, region: int, memory: Memory) -> Value:
        if not isinstance(value, Pointed):
            return value
        for offset, size, inner in value.known:
            nested = region
            if isinstance(inner, Pointed):
                self.regions += 1
                nested = self.first_region + self.regions
            memory[region, offset] = size, self._thawed(inner, nested, memory)
        return At(region, 0)

    def _frozen(self, value: Value, memory: Memory, length: int, depth: int = 0) -> Frozen:
        if isinstance(value, Field):
            return None
        if not isinstance(value, At):
            return value
        if depth > DEEPEST_POINTER:
            return Pointed()
        length = length if value.region == FRAME else SNAPSHOT
        known = [
            (offset - value.offset, size, self._frozen(inner, memory, length, depth + 1))
            for (region, offset), (size, inner) in sorted(memory.items(), key=lambda item: item[0])
            if region == value.region and 0 <= offset - value.offset < length and not isinstance(inner, int)
        ]
        return Pointed(tuple(item for item in known if item[2] not in (None, Pointed())))

    def _get(self, register: str) -> Value:
        if register in ("xzr", "wzr"):
            return 0
        return self.point.registers.get(GENERAL.get(register, -1))

    def _set(self, register: str, value: Value) -> None:
        number = GENERAL.get(register)
        if number is not None:
            if isinstance(value, (int, tuple)) and register[0] == "w":
                value = arithmetic.narrowed(value, 32)
            self.point.registers[number] = value

    def _compute(self, name: str, text: str) -> None:
        point = self.point
        bracket = text.find("[")
        if bracket >= 0:
            self._access(name, text[:bracket].rstrip(", ").split(", "), ADDRESS.match(text[bracket:]))
            return
        parts = text.split(", ")
        if name in ("adr", "adrp"):
            self._set(parts[0], immediate(parts[1]))
            return
        values = arithmetic.operands(parts, self._get)
        flags, result = arithmetic.compute(name, parts, values, point.flags)
        if arithmetic.sets_flags(name):
            point.flags = None if flags is Known.UNEQUAL and not self.assumed.nonzero else flags
        if parts[0] in GENERAL and name not in arithmetic.ONLY_FLAGS:
            self._set(parts[0], result)
            if isinstance(result, int) and name == "add":
                string = self.library.string_at(result)
                if string is not None and len(string) > 3:
                    point.texts = (*point.texts[-5:], string)

    def _access(self, name: str, registers: list[str], access: re.Match[str] | None) -> None:
        load, store = LOADS.match(name), STORES.match(name)
        if access is None or (load is None and store is None):
            for register in registers:
                self._set(register, None)
            if access is not None and not name.startswith(("ld", "prf")):  # atomic, exclusive or of vectors
                self._put(self._place(access), 16, None)
            return
        place = self._place(access)
        for index, register in enumerate(registers):
            width = (load or store)["width"]  # type: ignore[index]
            size = BYTES[width] if width else WIDTHS.get(register[0], 8)
            here = arithmetic.sum_of(place, index * size)
            if store is not None:
                self._put(here, size, self._get(register) if register in GENERAL or register[1:] == "zr" else None)
                continue
            value = self._at(here, size)
            if load is not None and load["sign"]:
                value = arithmetic.signed(value, 8 * size)
            self._set(register, value)
        base = access["base"]
        if access["before"] or access["after"]:
            offset = int(access["offset"] or access["after"] or "0", 0)
            self._set(base, arithmetic.sum_of(self._get(base), offset))

    def _place(self, access: re.Match[str]) -> Value:
        base = self._get(access["base"])
        if base is Known.POSITIVE:  # where more sizes than five lie
            return Field(Known.OTHER, self.dtype_at + SIZES[0])
        if access["index"]:
            index = arithmetic.extended(
                self._get(access["index"]), access["extend"] or "lsl", int(access["by"] or "0", 0)
            )
            return base if isinstance(base, Field) else arithmetic.sum_of(base, index)
        if isinstance(base, Known) and base in (*DEVICES, Known.OTHER, Known.TABLE):
            return Field(base, int(access["offset"] or "0", 0))
        return arithmetic.sum_of(base, int(access["offset"] or "0", 0))

    def _at(self, place: Value, size: int) -> Value:
        if isinstance(place, Field):
            if place.owner is Known.TABLE:
                return Known.CUSTOM if place.offset in CUSTOM_FUNCTIONS else None
            if place.offset == 0:
                return Known.TABLE
            if size == 8 and (place.offset - self.dtype_at == NUMEL or place.offset - self.dtype_at in SIZES):
                return self._extent(place.owner, place.offset - self.dtype_at)
            if place.owner not in DEVICES:
                return None
            behind = place.offset - self.dtype_at  # two bytes of dtype, then std::optional<Device>
            device = DEVICES[place.owner]
            dtype: Value = FLOAT32 if place.owner is Known.FLOAT else IDENTITY
            return {(0, 2): dtype, (2, 1): device, (2, 2): device, (4, 1): 1}.get((behind, size))
        if isinstance(place, At):
            known = self.point.memory.get((place.region, place.offset))
            if known is not None:
                if known[0] == size:
                    return known[1]
                return arithmetic.narrowed(known[1], 8 * size) if known[0] > size else None
            if size == 8 and place.region != FRAME and place.offset == 0:
                return Known.OTHER
            return None
        return arithmetic.constant(self.library, place, size)

    def _extent(self, owner: Known, behind: int) -> Value:
        """The number of elements or a size; of a tensor without elements any size may be the one that is zero."""
        followed = owner in DEVICES
        if followed and self.assumed.empty:
            return 0 if behind == NUMEL else None
        return Known.POSITIVE if followed or self.assumed.filled else None

    def _put(self, place: Value, size: int, value: Value) -> None:
        if not isinstance(place, At):
            return
        memory = self.point.memory
        for offset in range(place.offset - 15, place.offset + size):
            known = memory.get((place.region, offset))
            if known is not None and offset + known[0] > place.offset:
                del memory[place.region, offset]
        if place.region != FRAME:
            self.assigned.add(place.region)
        if value is not None:
            memory[place.region, place.offset] = size, value
