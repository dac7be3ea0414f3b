"""An emulated processor with an image in its memory. Whatever the image imports is answered by a Python function.

Nothing of the image runs on this machine itself. How many instructions and calls one run may take, and how much memory,
is limited: code that does not end, or asks for everything, is an error.
"""

from __future__ import annotations

import functools
import importlib
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mpsprobe.errors import MissingPackage, TableError
from mpsprobe.suggestions import printable

if TYPE_CHECKING:
    from mpsprobe_tables.tensorflow.image import Image

PAGE = 0x1000
IMPORTS, SLOT, MOST_IMPORTED = 0x7000_0000_0000, 16, 0x1000  # where imported functions are, and how far apart
STACK, STACK_SIZE = 0x7100_0000_0000, 1 << 20
HEAP, HEAP_SIZE = 0x7200_0000_0000, 16 << 20
MOST_INSTRUCTIONS = 5_000_000  # the function of 1.2.0 takes 0.1 million
MOST_CALLS = 200_000  # of imported functions; the plugin's makes 5,000
MOST_SECONDS = 10
LONGEST_TEXT = 4096
MODULES = ("unicorn", "unicorn.arm64_const", "unicorn.x86_const")
OBJECTS = ("__ZNSt3__14cerrE", "__ZNSt3__14coutE", "__ZNSt3__14clogE")  # imported ones that are read, not called
METHOD = "a method of an object that is not there"


class Machine:
    """A processor and its memory.

    Raises MissingPackage: ``unicorn`` is not installed; TableError: the image does not fit into memory.

    Args:
        image: what is loaded, at its own addresses.
        answer: called with the symbol whenever the image calls what it imports. Returns what that returns, or None
            where that is no value. A KeyError says that the symbol is not known.
    """

    def __init__(self, image: Image, answer: Callable[[str], int | None]) -> None:
        try:
            unicorn, arm64, x86 = (importlib.import_module(name) for name in MODULES)
        except ImportError as error:
            raise MissingPackage("reading what a plugin registers", "mpsprobe-tables[tensorflow]") from error
        self.image = image
        self._answer = answer
        self._error = unicorn.UcError
        self._is_arm64 = image.architecture == "arm64"
        self._cpu: Any
        self._link: int | None
        if self._is_arm64:
            self._cpu = unicorn.Uc(unicorn.UC_ARCH_ARM64, unicorn.UC_MODE_ARM)
            self._arguments = tuple(getattr(arm64, f"UC_ARM64_REG_X{index}") for index in range(8))
            self._result, self._pc, self._sp = arm64.UC_ARM64_REG_X0, arm64.UC_ARM64_REG_PC, arm64.UC_ARM64_REG_SP
            self._link, returning = arm64.UC_ARM64_REG_LR, struct.pack("<I", 0xD65F03C0)
        else:
            self._cpu = unicorn.Uc(unicorn.UC_ARCH_X86, unicorn.UC_MODE_64)
            self._arguments = tuple(
                getattr(x86, f"UC_X86_REG_{name}") for name in ("RDI", "RSI", "RDX", "RCX", "R8", "R9")
            )
            self._result, self._pc, self._sp = x86.UC_X86_REG_RAX, x86.UC_X86_REG_RIP, x86.UC_X86_REG_RSP
            self._link, returning = None, b"\xc3"
        self._imported: list[str] = []
        self._free = HEAP
        self._calls = 0
        try:
            self._load(returning)
        except self._error as error:
            raise TableError(f"{image.name} does not fit into memory: {error}", "Download the wheel again.") from error
        self._cpu.hook_add(unicorn.UC_HOOK_CODE, self._call, begin=IMPORTS, end=IMPORTS + SLOT * MOST_IMPORTED)

    def _load(self, returning: bytes) -> None:
        for segment in self.image.segments:
            start = segment.address & -PAGE
            end = -(-(segment.address + segment.size) // PAGE) * PAGE
            if end > start:
                self._cpu.mem_map(start, end - start)
                self._cpu.mem_write(segment.address, segment.content)
        for start, size in ((IMPORTS, SLOT * MOST_IMPORTED), (STACK, STACK_SIZE), (HEAP, HEAP_SIZE)):
            self._cpu.mem_map(start, size)
        self._cpu.mem_write(IMPORTS, returning.ljust(SLOT, b"\0") * MOST_IMPORTED)
        self._end = IMPORTS + SLOT * (MOST_IMPORTED - 1)
        known: dict[str, int] = {}
        for place, target in self.image.pointers.items():
            if isinstance(target, str):
                own = self.image.functions.get(target)  # a weak symbol is imported by the library that defines it
                if target not in known:
                    other = self.new_object if target in OBJECTS else functools.partial(self.imported, target)
                    known[target] = other() if own is None else own
                target = known[target]
            self.write(place, struct.pack("<Q", target))

    def imported(self, symbol: str) -> int:
        """An address that stands for an imported symbol."""
        if len(self._imported) >= MOST_IMPORTED - 1:
            raise TableError(f"{self.image.name} imports more than {MOST_IMPORTED} symbols")
        self._imported.append(symbol)
        return IMPORTS + SLOT * (len(self._imported) - 1)

    def run(self, symbol: str) -> None:
        """Run one function, without arguments, until it returns.

        Raises:
            TableError: the image has none of that name, or it does something that is not known here, or does not end.
        """
        address = self.image.functions.get(symbol)
        if address is None:
            raise TableError(f"{self.image.name} has no function {symbol.lstrip('_')}: it registers no kernels")
        top = STACK + STACK_SIZE - PAGE
        if self._link is None:
            top -= 8  # where the caller's address lies, as after any call
            self.write(top, struct.pack("<Q", self._end))
        else:
            self._cpu.reg_write(self._link, self._end)
        self._cpu.reg_write(self._sp, top)
        try:
            self._cpu.emu_start(address, self._end, timeout=MOST_SECONDS * 1_000_000, count=MOST_INSTRUCTIONS)
        except self._error as error:
            raise self._strange(f"{error} at {self._cpu.reg_read(self._pc):#x}") from error
        if self._cpu.reg_read(self._pc) != self._end:
            raise self._strange("it does not end")

    def _call(self, _cpu: object, address: int, _size: int, _data: object) -> None:
        index = (address - IMPORTS) // SLOT
        if address == self._end:
            return
        self._calls += 1
        if index >= len(self._imported) or address % SLOT:
            raise self._strange(f"it jumps to {address:#x}")
        if self._calls > MOST_CALLS:
            raise self._strange("it does not end")
        symbol = self._imported[index]
        try:
            result = self._answer(symbol)
        except KeyError:
            raise self._strange(f"it calls {printable(symbol)[:120]}, which is not known here") from None
        if result is not None:
            self._cpu.reg_write(self._result, result & 0xFFFF_FFFF_FFFF_FFFF)

    def argument(self, index: int) -> int:
        """The argument of the call that is being answered: a number or an address."""
        return int(self._cpu.reg_read(self._arguments[index]))

    def go_on_with(self, function: int, *arguments: int) -> None:
        """Have the call that is being answered run ``function`` instead, which returns to the caller."""
        for register, value in zip(self._arguments, arguments, strict=False):
            self._cpu.reg_write(register, value)
        self._cpu.reg_write(self._pc, function)

    def allocate(self, size: int) -> int:
        """The address of ``size`` new bytes, all zero. Nothing is ever freed."""
        address = self._free
        self._free += -(-size // 16) * 16 + 16
        if self._free > HEAP + HEAP_SIZE:
            raise self._strange("it asks for more memory than any plugin needs")
        return address

    def new_object(self) -> int:
        """The address of an object of C++ whose virtual functions do nothing, and whose base begins where it does."""
        place, table = self.allocate(8), self.allocate(64 * 8)
        self.write(table + 32 * 8, struct.pack("<Q", self.imported(METHOD)) * 32)
        self.write(place, struct.pack("<Q", table + 32 * 8))
        return place

    def read(self, address: int, size: int) -> bytes:
        """``size`` bytes of memory."""
        if size > HEAP_SIZE:
            raise self._strange(f"it reads {size} bytes at once")
        try:
            return bytes(self._cpu.mem_read(address, size))
        except self._error as error:
            raise self._strange(f"{error}: {address:#x}") from error

    def number(self, address: int, size: int = 8) -> int:
        """An unsigned number of ``size`` bytes in memory."""
        return int.from_bytes(self.read(address, size), "little")

    def text(self, address: int) -> str:
        """The C string at ``address``."""
        return self.read_text(address).decode("utf-8", "replace")

    def read_text(self, address: int) -> bytes:
        """The bytes of the C string at ``address``."""
        data = b""
        while len(data) < LONGEST_TEXT:
            piece = self.read(address + len(data), PAGE - (address + len(data)) % PAGE)
            data += piece
            if b"\0" in piece:
                return data[: data.index(b"\0")]
        raise self._strange("a string does not end")

    def write(self, address: int, content: bytes) -> None:
        """Change memory."""
        try:
            self._cpu.mem_write(address, content)
        except self._error as error:
            raise self._strange(f"{error}: {address:#x}") from error

    def _strange(self, why: str) -> TableError:
        return TableError(f"{self.image.name} cannot be read: {why}", "Is it a plugin of TensorFlow, and whole?")
