"""Makes real arm64 Mach-O libraries that register operators and compute as PyTorch's do: stubs, kernels, graphs."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from mpsprobe_tables.builder.macho import MachO

TEXT_AT = 0x1000
RETURN = 0xD65F03C0
HEADER, SEGMENT, SECTION, SYMTAB, DYSYMTAB = 32, 72, 80, 24, 80
OBJECTS_AT, OBJECT = 0x4000000, 64  # where global objects lie in memory, and how large each is
STRINGS_IN_FRAME = 64  # bytes from the stack pointer; what lies below is for arguments
FRAME = 0xD1080000 | 31 << 5 | 31  # sub sp, sp, #512
FALLBACK = "__ZN3c1011BoxedKernel19make_boxed_functionIXadL_ZN2atL12mps_fallbackERKNS_14OperatorHandleEEEEvv"


class Load(NamedTuple):
    """Puts the address of a string into a register: ``adrp`` and ``add``, or, when ``near``, one ``adr``."""

    text: str
    register: int = 1
    near: bool = False


class Address(NamedTuple):
    """Puts the address of a function into a register."""

    symbol: str
    register: int = 10


class Call(NamedTuple):
    """Calls a function of this library, or an imported one through a stub."""

    symbol: str


class Text(NamedTuple):
    """Builds a short ``std::string`` on the stack, 32 bytes for each ``slot``, and puts its address into a register."""

    text: str
    register: int
    slot: int = 0


class Keep(NamedTuple):
    """Stores the address of a function into a global object, ``offset`` bytes from where that begins."""

    symbol: str
    into: str
    offset: int


class Words(NamedTuple):
    """Instructions as they are."""

    words: tuple[int, ...]


Step = Load | Address | Call | Text | Keep | Words


def initialiser(namespace: str, key: str, number: int = 1) -> str:
    """The symbol of ``TORCH_LIBRARY_IMPL(namespace, key, m)``."""
    name = f"TORCH_LIBRARY_IMPL_init_{namespace}_{key}_{number}"
    return f"__ZN2at12_GLOBAL__N_1{len(name)}{name}ERN5torch7LibraryE"


def definitions(namespace: str, fragment: int | None = None) -> str:
    """The symbol of ``TORCH_LIBRARY(namespace, m)`` or ``TORCH_LIBRARY_FRAGMENT``."""
    name = f"_init_{namespace}" if fragment is None else f"_FRAGMENT_init_{namespace}_{fragment}"
    name = f"TORCH_LIBRARY{name}"
    return f"__ZL{len(name)}{name}RN5torch7LibraryE"


@dataclass
class MadeLibrary:
    """Functions in the order of their addresses, strings that no function loads, global objects, Metal kernels.

    ``compiled``: how many bytes each of the Metal kernels has.
    """

    functions: dict[str, Sequence[Step]] = field(default_factory=dict)
    strings: Sequence[str] = ()
    objects: Sequence[str] = ()
    kernels: Sequence[str] = ()
    compiled: int = 3664

    def read(self, folder: Path) -> MachO:
        """As the builder reads it from a file in ``folder``."""
        path = folder / "library.dylib"
        path.write_bytes(self.build())
        return MachO(path)

    def build(self) -> bytes:
        """The file. Offsets in it are addresses, as in the ``__TEXT`` segment of a real library."""
        imported = [s.symbol for steps in self.functions.values() for s in steps if isinstance(s, Call)]
        imported = list(dict.fromkeys(symbol for symbol in imported if symbol not in self.functions))
        starts, at = {}, TEXT_AT
        for symbol, steps in self.functions.items():
            starts[symbol] = at
            at += len(_encode(steps, 0, defaultdict(int), defaultdict(int)))
        stubs_at = at
        starts.update({symbol: stubs_at + 12 * index for index, symbol in enumerate(imported)})
        starts.update({symbol: OBJECTS_AT + OBJECT * index for index, symbol in enumerate(self.objects)})
        strings_at = stubs_at + 12 * len(imported) + 16
        texts = [s.text for steps in self.functions.values() for s in steps if isinstance(s, Load)] + list(self.strings)
        places, pool = {}, b""
        for text in dict.fromkeys(texts):
            places[text] = strings_at + len(pool)
            pool += text.encode() + b"\0"
        code = b"".join(_encode(steps, starts[symbol], starts, places) for symbol, steps in self.functions.items())
        metal_at = _aligned(strings_at + len(pool))
        metal = b"MTLB" + b"".join(_metal_name(name, self.compiled) for name in self.kernels)
        linked_at = _aligned(metal_at + len(metal))
        names, symbols = b"\0", b""
        for symbol in (*self.functions, *self.objects, *imported):
            here = symbol in self.functions or symbol in self.objects
            section = 1 if symbol in self.functions else 9 if here else 0
            kind, place = (0x0E, starts[symbol]) if here else (0x01, 0)
            symbols += struct.pack("<IBBHQ", len(names), kind, section, 0, place)
            names += symbol.encode() + b"\0"
        count = len(self.functions) + len(self.objects)
        indirect = struct.pack(f"<{len(imported)}I", *range(count, count + len(imported)))
        indirect_at = linked_at + len(symbols)
        names_at = indirect_at + len(indirect)
        end = names_at + len(names)
        commands = segment(b"__TEXT", 0, linked_at, [
            (b"__text", TEXT_AT, stubs_at - TEXT_AT, 0x80000400, 0, 0),
            (b"__stubs", stubs_at, 12 * len(imported), 0x80000408, 0, 12),
            (b"__cstring", strings_at, len(pool), 0x2, 0, 0),
            (b"metal_basic", metal_at, len(metal), 0, 0, 0),
        ])  # fmt: skip
        commands += segment(b"__LINKEDIT", linked_at, end - linked_at, [])
        commands += struct.pack("<6I", 0x2, SYMTAB, linked_at, len(symbols) // 16, names_at, len(names))
        tables = (0, count, count, 0, count, len(imported), 0, 0, 0, 0, 0, 0, indirect_at, len(imported), 0, 0, 0, 0)
        commands += struct.pack("<20I", 0xB, DYSYMTAB, *tables)
        header = struct.pack("<8I", 0xFEEDFACF, 0x0100000C, 0, 6, 4, len(commands), 0x85, 0)
        file = bytearray(end)
        for place, content in (
            (0, header + commands),
            (TEXT_AT, code),
            (strings_at, pool),
            (metal_at, metal),
            (linked_at, symbols + indirect + names),
        ):
            file[place : place + len(content)] = content
        return bytes(file)


def _metal_name(name: str, size: int) -> bytes:
    return b"NAME" + struct.pack("<H", len(name) + 1) + name.encode() + b"\0MDSZ" + struct.pack("<HQ", 8, size)


def _encode(steps: Sequence[Step], start: int, functions: Mapping[str, int], strings: Mapping[str, int]) -> bytes:
    words: list[int] = []
    for step in steps:
        here = start + 4 * len(words)
        if isinstance(step, Words):
            words += step.words
        elif isinstance(step, Text):
            words += _text_words(step)
        elif isinstance(step, Keep):
            words += _address(functions[step.symbol], here, 9)
            words += _address(functions[step.into], here + 8, 8)
            words.append(0xF9000000 | step.offset // 8 << 10 | 8 << 5 | 9)  # str x9, [x8, #offset]
        elif isinstance(step, Call):
            words.append(0x94000000 | (functions[step.symbol] - here) // 4 & 0x3FFFFFF)
        elif isinstance(step, Load) and step.near:
            words.append(_page_or_place(0x10000000, strings[step.text] - here, step.register))
        else:
            target = strings[step.text] if isinstance(step, Load) else functions[step.symbol]
            words += _address(target, here, step.register)
    return struct.pack(f"<{len(words) + 1}I", *words, RETURN)


def _address(target: int, here: int, register: int) -> list[int]:
    """``adrp`` and ``add``."""
    page = _page_or_place(0x90000000, (target >> 12) - (here >> 12), register)
    return [page, 0x91000000 | (target & 0xFFF) << 10 | register << 5 | register]


def _text_words(step: Text) -> list[int]:
    """As a compiler does it: eight characters at a time from immediates, the length in the last of 24 bytes."""
    assert len(step.text) < 23
    at = STRINGS_IN_FRAME + 32 * step.slot
    content = step.text.encode().ljust(24, b"\0")[:16] + step.text.encode()[16:].ljust(7, b"\0") + b"\0"
    words = []
    for place in range(0, 24, 8):
        chunk = content[place : place + 8]
        for index in range(4):
            part = int.from_bytes(chunk[2 * index : 2 * index + 2], "little")
            words.append((0xF2800000 if index else 0xD2800000) | index << 21 | part << 5 | 8)  # movz, movk x8
        words.append(0xF9000000 | (at + place) // 8 << 10 | 31 << 5 | 8)  # str x8, [sp, #]
    words.append(0x52800000 | len(step.text) << 5 | 8)  # mov w8, #length
    words.append(0x39000000 | (at + 23) << 10 | 31 << 5 | 8)  # strb w8, [sp, #]
    words.append(0x91000000 | at << 10 | 31 << 5 | step.register)  # add register, sp, #
    return words


def _page_or_place(opcode: int, offset: int, register: int) -> int:
    return opcode | (offset & 3) << 29 | (offset >> 2 & 0x7FFFF) << 5 | register


def segment(name: bytes, at: int, size: int, sections: Sequence[tuple[bytes, int, int, int, int, int]]) -> bytes:
    """A load command; each section has name, place, extent, flags and two numbers that depend on its kind."""
    length = SEGMENT + SECTION * len(sections)
    found = struct.pack("<II16sQQQQiiII", 0x19, length, name, at, size, at, size, 7, 7, len(sections), 0)
    for section, place, extent, flags, first, second in sections:
        found += struct.pack("<16s16sQQIIIIIIII", section, name, place, extent, place, 2, 0, 0, flags, first, second, 0)
    return found


def _aligned(offset: int) -> int:
    return (offset + 15) & ~15


REGISTER = "__ZNR5torch7Library5_implEPKcONS_11CppFunctionE"
CALL_STUB = "__ZN2at6native16DispatchStubImpl12get_call_ptrEN3c1010DeviceTypeEPv"
STRING = "NSt3__112basic_stringIcNS3_11char_traitsIcEENS3_9allocatorIcEEEE"
LIBRARY = "__ZN2at6native3mps18MetalShaderLibrary"
UNARY = f"{LIBRARY}17exec_unary_kernelERNS_18TensorIteratorBaseERK{STRING}"
BINARY = f"{LIBRARY}18exec_binary_kernelERNS_18TensorIteratorBaseERK{STRING}"
LOOKUP = f"{LIBRARY}23getLibraryPipelineStateEPU21objcproto10MTLLibrary11objc_objectRK{STRING}"
FORMAT = "__ZN3fmt3v126detail19parse_format_stringIcNS1_14format_handlerIcEEEEvNS0_17basic_string_viewIT_EEOT0_"
INSERT = "__ZNSt3__112basic_stringIcNS_11char_traitsIcEENS_9allocatorIcEEE6insertEmPKc"
GRAPH = "__ZN2at6native3mps11runMPSGraphEPNS_3mps9MPSStreamE"
SETTER = "__GLOBAL__sub_I_UnaryKernel.mm"


def wrapper(operator: str) -> str:
    """The symbol of what is registered for ``operator`` (``exp_out``)."""
    name = f"wrapper_MPS_{operator}"
    return f"__ZN3c104impl28wrap_kernel_functor_unboxed_IXadL_ZN2at12_GLOBAL__N_1{len(name)}{name}EEEE4callEv"


def native(name: str) -> str:
    """The symbol of ``at::native::name(TensorIteratorBase&)``."""
    return f"__ZN2at6nativeL{len(name)}{name}ERNS_18TensorIteratorBaseE"


def block(name: str) -> str:
    """The symbol of a block inside of ``native(name)``."""
    return f"__{native(name)}_block_invoke"


def operator_call(name: str) -> str:
    """The symbol that calls an operator through the dispatcher (``mul_out``)."""
    return f"__ZN2at4_ops{len(name)}{name}4callERKNS_6TensorE"


def stub(name: str) -> tuple[str, str]:
    """The symbols of a stub and of the variable that names its type."""
    of_type = f"{name}_DECLARE_DISPATCH_type"
    default = f"__ZN2at6native12DispatchStubIPFvRNS_18TensorIteratorBaseEENS0_{len(of_type)}{of_type}EE7DEFAULTE"
    return f"__ZN2at6native{len(name)}{name}E", default


def formatted(pattern: str) -> list[Step]:
    """``fmt::format(pattern, …)``."""
    length = 0xD2800000 | len(pattern) << 5 | 1  # mov x1, #length
    return [Load(pattern, 0), Words((length,)), Call(FORMAT)]


def kernel_library(
    operators: dict[str, Sequence[Step]],
    functions: dict[str, Sequence[Step]] | None = None,
    stubs: dict[str, str | None] | None = None,
    kernels: Sequence[str] = (),
) -> MadeLibrary:
    """A library that registers ``operators`` for MPS; for each of ``stubs`` an initialiser sets a function, if any."""
    stubs = stubs or {}
    registered: list[Step] = []
    for operator in operators:
        name = operator.replace(".", "_")
        registered += [Address(wrapper(name)), Load(operator, 1), Call(REGISTER)]
    made: dict[str, Sequence[Step]] = {
        wrapper(operator.replace(".", "_")): [Words((FRAME,)), *steps] for operator, steps in operators.items()
    }
    made |= {symbol: [Words((FRAME,)), *steps] for symbol, steps in (functions or {}).items()}
    made[initialiser("aten", "MPS")] = registered
    made[SETTER] = [Keep(symbol, stub(name)[0], 24) for name, symbol in stubs.items() if symbol is not None]
    return MadeLibrary(made, objects=[symbol for name in stubs for symbol in stub(name)], kernels=kernels)


def unary(operation: str) -> list[Step]:
    """``exec_unary_kernel(iter, operation)``."""
    return [Text(operation, 2), Call(UNARY)]


def binary(operation: str) -> list[Step]:
    """``exec_binary_kernel(iter, operation)``."""
    return [Text(operation, 2), Call(BINARY)]
