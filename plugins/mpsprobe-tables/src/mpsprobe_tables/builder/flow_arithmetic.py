"""What arm64 instructions compute, on values that may depend on the dtype: see ``flow``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from mpsprobe_tables.builder.emulator import immediate
from mpsprobe_tables.builder.flow_values import TENSORS, At, Field, Known, Value, lifted
from mpsprobe_tables.builder.macho import MachO

FULL = (1 << 64) - 1
N, Z, C, V = 8, 4, 2, 1
SHIFTS = ("lsl", "lsr", "asr", "ror", "uxtb", "uxth", "uxtw", "uxtx", "sxtb", "sxth", "sxtw", "sxtx")
ONLY_FLAGS = ("cmp", "cmn", "tst", "ccmp", "ccmn")


CONDITIONS: Mapping[str, Callable[[int], bool]] = {
    "eq": lambda f: bool(f & Z),
    "ne": lambda f: not f & Z,
    "hs": lambda f: bool(f & C),
    "lo": lambda f: not f & C,
    "mi": lambda f: bool(f & N),
    "pl": lambda f: not f & N,
    "vs": lambda f: bool(f & V),
    "vc": lambda f: not f & V,
    "hi": lambda f: bool(f & C) and not f & Z,
    "ls": lambda f: not f & C or bool(f & Z),
    "ge": lambda f: bool(f & N) == bool(f & V),
    "lt": lambda f: bool(f & N) != bool(f & V),
    "gt": lambda f: not f & Z and bool(f & N) == bool(f & V),
    "le": lambda f: bool(f & Z) or bool(f & N) != bool(f & V),
}


def compared(left: int, other: int, bits: int) -> int:
    """The flags of ``cmp one, other``."""
    left, other = left & (1 << bits) - 1, other & (1 << bits) - 1
    result = (left - other) & (1 << bits) - 1
    sign = 1 << (bits - 1)
    overflow = (left ^ other) & (left ^ result) & sign
    return (N if result & sign else 0) | (Z if not result else 0) | (C if left >= other else 0) | (V if overflow else 0)


def tested(bits: int, left: int, other: int) -> int:
    """The flags of ``tst one, other``."""
    result = left & other & (1 << bits) - 1
    return (N if result >> (bits - 1) else 0) | (Z if not result else 0)


def narrowed(value: Value, bits: int) -> Value:
    """The lowest ``bits`` of a number."""
    return lifted(lambda n: n & (1 << bits) - 1, value)


def signed(value: Value, bits: int) -> Value:
    """A number of ``bits`` with its sign, in 64 bits."""

    def extend(n: int) -> int:
        n &= (1 << bits) - 1
        return n & FULL if n < 1 << (bits - 1) else (n - (1 << bits)) & FULL

    return lifted(extend, value)


def extended(value: Value, how: str, by: int) -> Value:
    """The second operand of an instruction, shifted or extended."""
    if how[:3] in ("uxt", "sxt"):
        bits = {"b": 8, "h": 16, "w": 32, "x": 64}[how[3]]
        value = signed(value, bits) if how[0] == "s" else narrowed(value, bits)
        how = "lsl"
    if not by:
        return value
    if how == "lsl":
        return lifted(lambda n: (n << by) & FULL, value)
    return lifted(lambda n: (n & FULL) >> by, value) if how == "lsr" else None


def sum_of(one: Value, other: Value) -> Value:
    """Their sum; an address in known memory and a number are one too."""
    if isinstance(other, int) and isinstance(one, (At, Field, Known)):
        signed_by = (other + (1 << 63) & FULL) - (1 << 63)
        if isinstance(one, At):
            return At(one.region, one.offset + signed_by)
        if isinstance(one, Field):
            return Field(one.owner, one.offset + signed_by)
        return Field(one, signed_by) if one in TENSORS else None
    return lifted(lambda a, b: (a + b) & FULL, one, other)


def constant(library: MachO, place: Value, size: int) -> Value:
    """What the program cannot change at an absolute address."""

    def read(address: int) -> int | None:
        content = library.constant(address, size)
        return None if content is None else int.from_bytes(content, "little")

    value = lifted(read, place)
    return None if isinstance(value, tuple) and all(part is None for part in value) else value


def operands(parts: Sequence[str], get: Callable[[str], Value]) -> list[Value]:
    """The values of what an instruction reads, its destination first; a shift belongs to the one before it."""
    values: list[Value] = []
    for part in parts:
        head, _, by = part.partition(" ")
        if head in SHIFTS and values:
            values[-1] = extended(values[-1], head, immediate(by) if by else 0)
        elif part.startswith("#"):
            try:
                values.append(immediate(part) & FULL)
            except ValueError:  # a floating-point number
                values.append(None)
        else:
            values.append(get(part))
    return values


def sets_flags(name: str) -> bool:
    """Whether the instruction changes the flags."""
    return name in (*ONLY_FLAGS, "subs", "adds", "ands", "bics", "negs") or name.startswith("fc")


def compute(name: str, parts: Sequence[str], values: Sequence[Value], flags: Value) -> tuple[Value, Value]:
    """The flags and the result of an instruction that reads ``values`` (the first is the destination)."""
    bits = 32 if parts[0][:1] == "w" else 64
    match name, values[1:]:
        case (("cmp" | "ccmp"), [other, *rest]):
            made = _compare(values[0], other, bits)
            return (made if name == "cmp" else _chosen(flags, parts[3], made, rest[0])), None
        case "subs", [one, other]:
            return _compare(one, other, bits), _binary(name[:3], one, other)
        case "fcmp", _ if parts[1] == "#0.0":
            return Known.UNEQUAL, None
        case "ands", [one, other]:
            return lifted(partial(tested, bits), one, other), _binary("and", one, other)
        case "tst", [other]:
            return lifted(partial(tested, bits), values[0], other), None
        case "mov", [source]:
            return None, source
        case "movk", [_]:
            shift = immediate(parts[2].removeprefix("lsl ")) if len(parts) > 2 else 0
            bits16 = (immediate(parts[1]) & 0xFFFF) << shift
            return None, lifted(lambda n: n & ~(0xFFFF << shift) | bits16, values[0])
        case (("add" | "sub" | "and" | "orr" | "eor" | "lsl" | "lsr" | "bic"), [one, other]):
            return None, _binary(name, one, other, bits)
        case (("uxtb" | "uxth" | "sxtb" | "sxth" | "sxtw" | "uxtw"), [one]):
            return None, extended(one, name, 0)
        case "ubfx", [one, int(low), int(width)]:
            return None, lifted(lambda n: n >> low & (1 << width) - 1, one)
        case "cset" | "csetm", _:
            return None, _chosen(flags, parts[1], 1 if name == "cset" else FULL, 0)
        case (("csel" | "csinc" | "csinv"), [one, other, _]):
            if name != "csel":
                other = lifted(lambda n: (n + 1 if name == "csinc" else ~n) & FULL, other)
            return None, _chosen(flags, parts[3], one, other)
        case "cinc", [one, _]:
            return None, _chosen(flags, parts[2], lifted(lambda n: n + 1, one), one)
    return None, None


def _compare(one: Value, other: Value, bits: int) -> Value:
    if one is Known.POSITIVE and other == 0:
        one = 1
    if {one, other} == {Known.TENSOR, Known.FLOAT}:  # the addresses of two tensors
        return 0
    return lifted(lambda a, b: compared(a, b, bits), one, other)


def _binary(name: str, one: Value, other: Value, bits: int = 64) -> Value:
    if name == "add":
        return sum_of(one, other)
    if name == "sub":
        if isinstance(other, int):
            return sum_of(one, -other & FULL)
        return lifted(lambda a, b: (a - b) & FULL, one, other)
    if name == "and" and 0 in (one, other):
        return 0
    functions: dict[str, Callable[[int, int], int]] = {
        "and": lambda a, b: a & b,
        "orr": lambda a, b: a | b,
        "eor": lambda a, b: a ^ b,
        "bic": lambda a, b: a & ~b,
        "lsl": lambda a, b: (a << (b % bits)) & FULL,
        "lsr": lambda a, b: a >> (b % bits),
    }
    return lifted(functions[name], one, other)


def _chosen(flags: Value, condition: str, one: Value, other: Value) -> Value:
    """``one`` with the dtypes for which the condition holds, ``other`` with the rest."""
    if one == other:
        return one
    test = CONDITIONS.get(condition)
    if flags is None or test is None:
        return None
    if isinstance(flags, int):
        return one if test(flags) else other
    if not isinstance(flags, tuple):
        return None
    columns = []
    for value in (one, other):
        if not isinstance(value, (int, tuple)) and value is not None:
            return None
        columns.append(value if isinstance(value, tuple) else (value,) * len(flags))
    made = tuple(None if f is None else (a if test(f) else b) for f, a, b in zip(flags, *columns, strict=True))
    return None if all(value is None for value in made) else made
