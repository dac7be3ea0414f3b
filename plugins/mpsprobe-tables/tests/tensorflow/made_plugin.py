"""Makes small plugins: Mach-O libraries for arm64 and x86-64 whose ``TF_InitKernel`` calls imported functions."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from made_library import segment
from made_wheel import write_wheel

TEXT_AT, DATA_AT, SIZE = 0x1000, 0x8000, 0x4000  # code, then data, and how large each is
KEEP = object()  # the first argument of a call: what was kept
CPU = {"arm64": 0x0100000C, "x86_64": 0x01000007}


class Call(NamedTuple):
    """Calls an imported function, or what was kept if it has no name. ``keep``: what it returns."""

    symbol: str
    arguments: tuple[object, ...] = ()
    keep: bool = False


class Constant(NamedTuple):
    """An ``NSString`` of the library."""

    text: str


Step = Call | bytes | list[Any]
"""Besides calls: instructions as they are, and what is done where the last call did not return 0."""


def kernel(operator: str, host: Sequence[str] = (), device: str = "GPU", **types: int) -> list[Step]:
    """The calls that register one."""
    return [
        Call("_TF_NewKernelBuilder", (operator, device, 0, 0, 0), keep=True),
        *(Call("_TF_KernelBuilder_TypeConstraint", (KEEP, name, dtype, 0)) for name, dtype in types.items()),
        *(Call("_TF_KernelBuilder_HostMemory", (KEEP, name)) for name in host),
        Call("_TF_RegisterKernelBuilder", ("name", KEEP, 0)),
    ]


def if_macos(version: int, *steps: Step) -> list[Step]:
    """What ``@available`` becomes; ``version`` is 0xMMMMmmpp."""
    return [
        Call("_dlsym", (0, "_availability_version_check"), keep=True),
        Call("", (1, struct.pack("<II", 1, version))),
        [*steps],
    ]


def if_responds(name: str, selector: str, *steps: Step) -> list[Step]:
    """What ``[NSClassFromString(name) instancesRespondToSelector:selector]`` becomes."""
    return [
        Call("_NSClassFromString", (Constant(name),), keep=True),
        Call("_objc_msgSend", (KEEP, "instancesRespondToSelector:", selector)),
        [*steps],
    ]


@dataclass
class MadePlugin:
    """A library; ``chained``: the pointers to imported functions are in chains, as newer linkers write them."""

    steps: Sequence[Step]
    architecture: str = "arm64"
    chained: bool = False
    export: str = "_TF_InitKernel"
    imports: list[str] = field(default_factory=list)

    def build(self) -> bytes:
        """The file: offsets are addresses."""
        self.imports = list(dict.fromkeys(step.symbol for step in _calls(self.steps) if step.symbol))
        self._data = bytearray(8 * len(self.imports))
        before, assemble, after = CODE[self.architecture]
        code = assemble(self.steps, self._place, lambda symbol: DATA_AT + 8 * self.imports.index(symbol))
        code = before + code + after
        if self.chained:
            for index in range(len(self.imports)):
                step = 2 if index + 1 < len(self.imports) else 0  # in units of four bytes
                struct.pack_into("<Q", self._data, 8 * index, 1 << 63 | step << 51 | index)
        names, symbols = b"\0", struct.pack("<IBBHQ", 1, 0x0F, 1, 0, TEXT_AT)
        for name in (self.export, *self.imports):
            symbols += struct.pack("<IBBHQ", len(names), 0x01, 0, 0, 0) if name != self.export else b""
            names += name.encode() + b"\0"
        count = len(self.imports)
        indirect = struct.pack(f"<{count}I", *range(1, count + 1))
        fixups = self._fixups() if self.chained else b""
        linked_at = DATA_AT + SIZE
        fixups_at = linked_at + len(symbols) + len(indirect)
        names_at = fixups_at + len(fixups)
        commands = [
            segment(b"__TEXT", 0, TEXT_AT + SIZE, [(b"__text", TEXT_AT, len(code), 0x80000400, 0, 0)]),
            segment(b"__DATA", DATA_AT, SIZE, [(b"__got", DATA_AT, 8 * count, 0 if self.chained else 6, 0, 0)]),
            segment(b"__LINKEDIT", linked_at, names_at + len(names) - linked_at, []),
            struct.pack("<6I", 0x2, 24, linked_at, count + 1, names_at, len(names)),
            struct.pack("<20I", 0xB, 80, 0, 0, 0, 1, 1, count, *[0] * 6, linked_at + len(symbols), count, *[0] * 4),
            struct.pack("<6I", 0x32, 24, 1, 12 << 16 | 1 << 8, 14 << 16, 0),  # built for macOS 12.1
        ]
        if self.chained:
            commands.append(struct.pack("<4I", 0x80000034, 16, fixups_at, len(fixups)))
        joined = b"".join(commands)
        header = struct.pack("<8I", 0xFEEDFACF, CPU[self.architecture], 0, 6, len(commands), len(joined), 0x85, 0)
        file = bytearray(linked_at)
        for place, content in ((0, header + joined), (TEXT_AT, code), (DATA_AT, self._data)):
            file[place : place + len(content)] = content
        return bytes(file) + symbols + indirect + fixups + names

    def _place(self, argument: object) -> int:
        """A number, or the address of data that is put into the library for it."""
        if isinstance(argument, int):
            return argument
        if isinstance(argument, Constant):
            text = self._place(argument.text)
            return self._place(struct.pack("<4Q", 0, 0x7C8, text, len(argument.text)))
        content = argument.encode() + b"\0" if isinstance(argument, str) else argument
        assert isinstance(content, bytes)
        at = DATA_AT + len(self._data)
        self._data += content.ljust(-(-len(content) // 8) * 8, b"\0")
        return at

    def _fixups(self) -> bytes:
        """``dyld_chained_fixups_header``, starts of three segments, imports, names."""
        names, imports = b"\0", b""
        for name in self.imports:
            imports += struct.pack("<I", len(names) << 9 | 1)
            names += name.encode() + b"\0"
        segment = struct.pack("<IHHQIHHH", 24, SIZE, 6, DATA_AT, 0, 1, 0, 0)
        starts = struct.pack("<4I", 3, 0, 16, 0) + segment
        at = 32 + len(starts)
        header = struct.pack("<8I", 0, 32, at, at + len(imports), len(self.imports), 1, 0, 0)
        return header + starts + imports + names


def make_wheel(folder: Path, library: bytes, architecture: str = "arm64", python: str = "312") -> Path:
    """A wheel of tensorflow-metal 1.2.0 with that library."""
    path = folder / f"tensorflow_metal-1.2.0-cp{python}-cp{python}-macosx_12_0_{architecture}.whl"
    return write_wheel(path, {"tensorflow-plugins/libmetal_plugin.dylib": library}, "tensorflow-metal", "1.2.0")


def _calls(steps: Sequence[Step]) -> Iterator[Call]:
    for step in steps:
        if isinstance(step, Call):
            yield step
        elif isinstance(step, list):
            yield from _calls(step)


def _arm64(steps: Sequence[Step], place: Callable[[object], int], pointer: Callable[[str], int]) -> bytes:
    words: list[int] = []
    for step in steps:
        if isinstance(step, Call):
            for register, argument in enumerate(step.arguments):
                words += [0xAA1303E0 | register] if argument is KEEP else _arm64_number(register, place(argument))
            if step.symbol:
                words += [*_arm64_number(9, pointer(step.symbol)), 0xF9400129, 0xD63F0120]  # ldr x9, [x9]; blr x9
            else:
                words.append(0xD63F0260)  # blr x19
            words += [0xAA0003F3] if step.keep else []  # mov x19, x0
        elif isinstance(step, list):
            inside = _arm64(step, place, pointer)
            words.append(0xB4000000 | (len(inside) // 4 + 1) << 5)  # cbz x0
            words += struct.unpack(f"<{len(inside) // 4}I", inside)
        else:
            words += struct.unpack(f"<{len(step) // 4}I", step)
    return struct.pack(f"<{len(words)}I", *words)


def _arm64_number(register: int, value: int) -> list[int]:
    """``movz`` and three ``movk``."""
    parts = [value >> 16 * index & 0xFFFF for index in range(4)]
    return [(0xF2800000 if i else 0xD2800000) | i << 21 | part << 5 | register for i, part in enumerate(parts)]


def _x86(steps: Sequence[Step], place: Callable[[object], int], pointer: Callable[[str], int]) -> bytes:
    into = (b"\x48\xbf", b"\x48\xbe", b"\x48\xba", b"\x48\xb9", b"\x49\xb8", b"\x49\xb9")  # rdi, rsi, rdx, rcx, r8, r9
    kept = (b"\x48\x89\xdf", b"\x48\x89\xde")  # mov rdi, rbx; mov rsi, rbx
    code = b""
    for step in steps:
        if isinstance(step, Call):
            for index, argument in enumerate(step.arguments):
                code += kept[index] if argument is KEEP else into[index] + struct.pack("<Q", place(argument))
            code += b"\x48\xb8" + struct.pack("<Q", pointer(step.symbol)) + b"\xff\x10" if step.symbol else b"\xff\xd3"
            code += b"\x48\x89\xc3" if step.keep else b""
        elif isinstance(step, list):
            inside = _x86(step, place, pointer)
            code += b"\x48\x85\xc0\x0f\x84" + struct.pack("<i", len(inside)) + inside  # test rax, rax; jz
        else:
            code += step
    return code


CODE = {
    "arm64": (struct.pack("<I", 0xA9BF7BFD), _arm64, struct.pack("<2I", 0xA8C17BFD, 0xD65F03C0)),  # stp … ldp; ret
    "x86_64": (b"\x53", _x86, b"\x5b\xc3"),  # push rbx … pop rbx; ret
}
