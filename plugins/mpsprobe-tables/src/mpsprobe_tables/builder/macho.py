"""Reads what a table needs from an arm64 Mach-O library: sections, symbols, C strings.

Our own reader instead of a general one: it maps the file (a libtorch_cpu.dylib has 400 MB), touches a few per cent of
it, and checks every offset against the file, so that a truncated or corrupted library is an error and never a crash.
Structure names are those of Apple's <mach-o/loader.h> and <mach-o/nlist.h>.
"""

from __future__ import annotations

import bisect
import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from mpsprobe.errors import TableError

MH_MAGIC_64 = 0xFEEDFACF
CPU_TYPE_ARM64 = 0x0100000C
LC_SYMTAB = 0x2
LC_DYSYMTAB = 0xB
LC_SEGMENT_64 = 0x19
HEADER_BYTES, SEGMENT_BYTES, SECTION_BYTES, SYMBOL_BYTES = 32, 72, 80, 16
N_STAB, N_TYPE, N_SECT = 0xE0, 0x0E, 0x0E
S_SYMBOL_STUBS = 0x8
LARGEST_FUNCTION = 8 << 20  # bytes; the largest initialiser known has 0.3 MB


@dataclass(frozen=True, slots=True)
class Section:
    """Where one section lies: ``address`` in memory, ``offset`` in the file, ``size`` in bytes."""

    segment: str
    name: str
    address: int
    size: int
    offset: int
    flags: int
    reserved1: int
    reserved2: int

    def __contains__(self, address: int) -> bool:
        return self.address <= address < self.address + self.size


class MachO:
    """An arm64 Mach-O library on disk; a context manager, because it keeps the file mapped.

    Raises:
        TableError: the file is truncated, corrupted, or something else than an arm64 Mach-O library.
    """

    def __init__(self, path: Path) -> None:
        self.name = path.name
        self._file: BinaryIO = path.open("rb")
        try:
            try:
                self._data = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
            except ValueError as error:  # an empty file cannot be mapped
                raise TableError(f"{self.name} is empty") from error
        except BaseException:
            self._file.close()
            raise
        self.size = len(self._data)
        try:
            self._read()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> MachO:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._data.close()
        self._file.close()

    def _read(self) -> None:
        magic, cpu, _, _, commands, commands_bytes = struct.unpack("<6I", self._bytes(0, 24))
        if magic != MH_MAGIC_64 or cpu != CPU_TYPE_ARM64:
            raise TableError(f"{self.name} is not an arm64 Mach-O library")
        self.sections: list[Section] = []
        self._symtab = self._dysymtab = b""
        offset, end = HEADER_BYTES, HEADER_BYTES + commands_bytes
        for _ in range(commands):
            command, length = struct.unpack("<II", self._bytes(offset, 8))
            if length < 8 or offset + length > end:
                raise self._broken("a load command does not fit")
            body = self._bytes(offset, length)
            if command == LC_SEGMENT_64:
                self._read_segment(body)
            elif command == LC_SYMTAB:
                self._symtab = body
            elif command == LC_DYSYMTAB:
                self._dysymtab = body
            offset += length
        text = self.section("__TEXT", "__text")
        if text is None or len(self._symtab) < 24:
            raise self._broken("it has no code or no symbols")
        self.text = text
        self._strings = [s for s in self.sections if s.name == "__cstring"]
        self._constants = [s for s in self.sections if s.segment == "__TEXT" and s.name in ("__cstring", "__const")]
        self._read_symbols()

    def _read_segment(self, body: bytes) -> None:
        if len(body) < SEGMENT_BYTES:
            raise self._broken("a segment does not fit")
        (count,) = struct.unpack_from("<I", body, 64)
        if SEGMENT_BYTES + count * SECTION_BYTES > len(body):
            raise self._broken("its sections do not fit")
        for index in range(count):
            start = SEGMENT_BYTES + index * SECTION_BYTES
            name, segment, address, size, offset, _, _, _, flags, first, second = struct.unpack_from(
                "<16s16sQQIIIIIII", body, start
            )
            zero_filled = flags & 0xFF in (0x1, 0xC, 0x12)  # S_ZEROFILL, S_GB_ZEROFILL, S_THREAD_LOCAL_ZEROFILL
            if not zero_filled and offset + size > self.size:
                raise self._broken("a section reaches beyond its end")
            if not zero_filled:
                self.sections.append(Section(_text(segment), _text(name), address, size, offset, flags, first, second))

    def _read_symbols(self) -> None:
        symbols_at, self._symbol_count, strings_at, strings_size = struct.unpack_from("<4I", self._symtab, 8)
        self._symbols = self._bytes(symbols_at, self._symbol_count * SYMBOL_BYTES)
        self._names = self._bytes(strings_at, strings_size)
        self._function_names: dict[int, int] = {}
        low, high = self.text.address, self.text.address + self.text.size
        for at, kind, _, _, value in struct.iter_unpack("<IBBHQ", self._symbols):
            if kind & N_STAB == 0 and kind & N_TYPE == N_SECT and low <= value < high:
                self._function_names.setdefault(value, at)
        self._starts = sorted(self._function_names)
        self._stubs = self._read_stubs()

    def _read_stubs(self) -> dict[int, int]:
        """Address of each stub → where the name of the imported function is (``reserved1``: see loader.h)."""
        stubs: dict[int, int] = {}
        if len(self._dysymtab) < 80:
            return stubs
        table_at, table_count = struct.unpack_from("<II", self._dysymtab, 56)
        for section in self.sections:
            if section.flags & 0xFF != S_SYMBOL_STUBS or not section.reserved2:
                continue
            count = section.size // section.reserved2
            if section.reserved1 + count > table_count:
                raise self._broken("its stubs do not fit")
            indices = struct.unpack(f"<{count}I", self._bytes(table_at + 4 * section.reserved1, 4 * count))
            for position, index in enumerate(indices):
                if index < self._symbol_count:
                    (at,) = struct.unpack_from("<I", self._symbols, index * SYMBOL_BYTES)
                    stubs[section.address + position * section.reserved2] = at
        return stubs

    def section(self, segment: str, name: str) -> Section | None:
        """The section of that name, or ``None``."""
        return next((s for s in self.sections if s.segment == segment and s.name == name), None)

    def functions_named(self, part: bytes) -> Iterator[tuple[str, int, int]]:
        """Functions whose symbol contains ``part``, by address: symbol, first address, address behind the last.

        A function ends where the next symbol begins. Raises ``TableError`` for one that is impossibly long.
        """
        wanted = {}
        at = self._names.find(part)
        while at >= 0:
            start = self._names.rfind(b"\0", 0, at) + 1
            wanted[start] = self._name_at(start)
            at = self._names.find(part, at + 1)
        for index, address in enumerate(self._starts):
            symbol = wanted.get(self._function_names[address])
            if symbol is None:
                continue
            last = index + 1 == len(self._starts)
            end = self.text.address + self.text.size if last else self._starts[index + 1]
            if end - address > LARGEST_FUNCTION:
                raise self._broken("a function does not end")
            yield symbol, address, end

    def has_symbol(self, part: bytes) -> bool:
        """Whether the name of any symbol contains ``part``."""
        return part in self._names

    def code(self, address: int, end: int) -> tuple[int, ...]:
        """The instructions from ``address`` up to ``end``, 32 bits each."""
        count = (end - address) // 4
        offset = self.text.offset + address - self.text.address
        return struct.unpack(f"<{count}I", self._bytes(offset, 4 * count))

    def section_bytes(self, section: Section) -> bytes:
        """All of a section."""
        return self._bytes(section.offset, section.size)

    def function_range(self, address: int) -> tuple[int, int] | None:
        """First address of the function that starts at ``address``, and the address behind its last instruction."""
        if address not in self._function_names:
            return None
        index = bisect.bisect_right(self._starts, address)
        end = self._starts[index] if index < len(self._starts) else self.text.address + self.text.size
        if end - address > LARGEST_FUNCTION:
            raise self._broken("a function does not end")
        return address, end

    def constant(self, address: int, length: int) -> bytes | None:
        """Bytes that the program cannot change: those of the segment ``__TEXT``; None elsewhere."""
        for section in self._constants:
            if section.address <= address and address + length <= section.address + section.size:
                return self._bytes(section.offset + address - section.address, length)
        return None

    def objects_named(self, part: bytes) -> dict[int, str]:
        """Global variables whose symbol contains ``part``: address → symbol."""
        found = {}
        low, high = self.text.address, self.text.address + self.text.size
        for at, kind, _, _, value in struct.iter_unpack("<IBBHQ", self._symbols):
            if kind & N_STAB == 0 and kind & N_TYPE == N_SECT and not low <= value < high:
                end = self._names.find(b"\0", at)
                if part in self._names[at:end]:
                    found[value] = self._name_at(at)
        return found

    def symbol_at(self, address: int) -> str | None:
        """The function that starts, or the imported function whose stub is, at ``address``."""
        at = self._function_names.get(address, self._stubs.get(address))
        return None if at is None else self._name_at(at)

    def function_at(self, address: int) -> str | None:
        """The symbol of the function that ``address`` lies in."""
        index = bisect.bisect_right(self._starts, address) - 1
        return self._name_at(self._function_names[self._starts[index]]) if index >= 0 else None

    def string_at(self, address: int) -> str | None:
        """The C string at ``address``, if that lies in a section of C strings."""
        for section in self._strings:
            if address in section:
                start = section.offset + address - section.address
                end = self._data.find(b"\0", start, section.offset + section.size)
                if end < 0:
                    raise self._broken("a string does not end")
                return self._data[start:end].decode("utf-8", "replace")
        return None

    def strings_containing(self, part: bytes) -> Iterator[str]:
        """Every C string with ``part`` in it, in the order of the file."""
        for section in self._strings:
            end = section.offset + section.size
            at = self._data.find(part, section.offset, end)
            while at >= 0:
                start = max(self._data.rfind(b"\0", section.offset, at) + 1, section.offset)
                stop = self._data.find(b"\0", at, end)
                if stop < 0:
                    raise self._broken("a string does not end")
                yield self._data[start:stop].decode("utf-8", "replace")
                at = self._data.find(part, stop, end)

    def _name_at(self, start: int) -> str:
        end = self._names.find(b"\0", start)
        if start >= len(self._names) or end < 0:
            raise self._broken("a symbol has no name")
        return self._names[start:end].decode("utf-8", "replace")

    def _bytes(self, offset: int, length: int) -> bytes:
        if offset < 0 or length < 0 or offset + length > self.size:
            raise self._broken("it ends too early")
        return self._data[offset : offset + length]

    def _broken(self, why: str) -> TableError:
        return TableError(f"{self.name} is truncated or corrupted: {why}", "Download the wheel again.")


def _text(padded: bytes) -> str:
    return padded.split(b"\0", 1)[0].decode("ascii", "replace")
