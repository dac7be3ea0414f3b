"""What a table needs from an arm64 Mach-O library: sections, functions, C strings. The file is parsed by lief."""

from __future__ import annotations

import re
import struct
import warnings
from collections.abc import Iterator
from pathlib import Path

import lief
import numpy as np

from mpsprobe.errors import TableError

N_STAB, N_TYPE, N_SECT = 0xE0, 0x0E, 0x0E  # <mach-o/nlist.h>: of debuggers; what kind of symbol; one in a section
ARM64 = lief.MachO.Header.CPU_TYPE.ARM64
THIN = bytes.fromhex("cffaedfe")  # <mach-o/loader.h>: MH_MAGIC_64 in little-endian order
LC_SYMTAB, HEADER = 2, 32  # <mach-o/loader.h>: the command that says where symbols and names are; bytes before commands
SYMBOL = np.dtype([("name", "<u4"), ("rest", "V12")])  # <mach-o/nlist.h>, struct nlist_64
LONGEST_NAME = 4096  # bytes; the longest of any release has 976, and expressions that look for names take squares
MOST_SYMBOLS = 2_000_000  # torch 2.13.0 has 426,756; lief takes some 300 bytes for each
LARGEST_FUNCTION = 8 << 20  # bytes; the largest initialiser known has 0.3 MB
MOST_CODE = 64 << 20  # bytes of instructions that are looked at; torch 2.13.0 has 10 MB of them


class MachO:
    """An arm64 Mach-O library, parsed into memory: about three times the size of its file.

    ``most_code``: bytes of instructions that ``code`` gives in all; to follow a megabyte takes seconds.

    Raises TableError: the file is truncated, corrupted, or something else than an arm64 Mach-O library.
    """

    def __init__(self, path: Path, most_code: int = MOST_CODE) -> None:
        self.name = path.name
        self._code_left = most_code
        lief.logging.disable()  # it writes to standard error what is raised as an error here
        self._parsed = parsed_library(path)
        if any(s.file_offset + s.file_size > self._parsed.original_size for s in self._parsed.segments):
            raise self._broken("a segment reaches beyond its end")
        # Each is copied: sections of the same bytes would take more memory than the file.
        if sum(len(s.content) for s in self._parsed.sections) > self._parsed.original_size:
            raise self._broken("its sections overlap")
        text = self._parsed.get_section("__TEXT", "__text")
        if text is None:
            raise self._broken("it has no code")
        self._text = text
        end = text.virtual_address + text.size
        self._functions: dict[int, str] = {}
        self._objects: dict[int, str] = {}
        for symbol in self._parsed.symbols:
            if symbol.raw_type & (N_STAB | N_TYPE) == N_SECT:
                inside = text.virtual_address <= symbol.value < end
                (self._functions if inside else self._objects).setdefault(symbol.value, str(symbol.name))
        if not self._functions:
            raise self._broken("it has no functions")
        self._starts = sorted(self._functions)
        self._ends = dict(zip(self._starts, [*self._starts[1:], end], strict=True))
        self._constants = [
            (section.virtual_address, bytes(section.content), section.name == "__cstring")
            for section in self._parsed.sections
            if section.segment_name == "__TEXT" and section.name in ("__cstring", "__const")
        ]
        with quiet():
            self._stubs = dict(self._imported())

    def _imported(self) -> Iterator[tuple[int, str]]:
        """Address of each stub, and the function that it imports (``reserved1``, ``reserved2``: see loader.h)."""
        table = self._parsed.dynamic_symbol_command
        symbols = [] if table is None else [str(symbol.name) for symbol in table.indirect_symbols]
        for section in self._parsed.sections:
            if section.type is lief.MachO.Section.TYPE.SYMBOL_STUBS and section.reserved2:
                count = section.size // section.reserved2
                if section.reserved1 + count > len(symbols):
                    raise self._broken("its stubs do not fit")
                for index in range(count):
                    yield section.virtual_address + index * section.reserved2, symbols[section.reserved1 + index]

    @property
    def starts(self) -> list[int]:
        """Where each function starts, in order."""
        return self._starts

    def text(self) -> tuple[int, bytes]:
        """The address of the first instruction, and all of them."""
        return self._text.virtual_address, bytes(self._text.content)

    def addresses(self, pattern: re.Pattern[str]) -> Iterator[int]:
        """The functions, and the stubs of imported ones, whose symbol has ``pattern`` in it."""
        for functions in (self._functions, self._stubs):
            yield from (address for address, symbol in functions.items() if pattern.search(symbol))

    def sections(self, segment: str, prefix: str) -> Iterator[tuple[int, bytes]]:
        """Address and bytes of each section of ``segment`` whose name begins with ``prefix``."""
        for section in self._parsed.sections:
            if section.segment_name == segment and str(section.name).startswith(prefix):
                yield section.virtual_address, bytes(section.content)

    def functions_named(self, part: str) -> Iterator[tuple[str, int]]:
        """Symbol and address of each function whose symbol contains ``part``, by address."""
        return ((self._functions[address], address) for address in self._starts if part in self._functions[address])

    def objects_named(self, part: str) -> dict[int, str]:
        """Global variables whose symbol contains ``part``: address → symbol."""
        return {address: symbol for address, symbol in self._objects.items() if part in symbol}

    def code(self, address: int) -> bytes:
        """The instructions of the function that starts at ``address``; it ends where the next symbol begins.

        Raises TableError: it is impossibly long, or too much was asked for before.
        """
        end = self._ends[address]
        if end - address > LARGEST_FUNCTION:
            raise self._broken("a function does not end")
        self._code_left -= end - address
        if self._code_left < 0:
            raise self._broken("it registers more than there can be")
        start = address - self._text.virtual_address
        return bytes(self._text.content[start : start + end - address])

    def is_function(self, address: int) -> bool:
        """Whether a function of the library itself starts at ``address``."""
        return address in self._functions

    def constant(self, address: int, length: int) -> bytes | None:
        """Bytes that the program cannot change: those of the segment ``__TEXT``; None elsewhere."""
        for start, content, _ in self._constants:
            if start <= address and address + length <= start + len(content):
                return content[address - start : address - start + length]
        return None

    def symbol_at(self, address: int) -> str | None:
        """The function that starts, or the imported function whose stub is, at ``address``."""
        return self._functions.get(address, self._stubs.get(address))

    def string_at(self, address: int) -> str | None:
        """The C string at ``address``, if that lies in a section of C strings."""
        for start, content, strings in self._constants:
            if strings and start <= address < start + len(content):
                return self._text_of(content, address - start)
        return None

    def strings_containing(self, part: str) -> Iterator[str]:
        """Every C string with ``part`` in it, in the order of the file."""
        for _, content, strings in self._constants:
            at = content.find(part.encode()) if strings else -1
            while at >= 0:
                yield self._text_of(content, content.rfind(b"\0", 0, at) + 1)
                at = content.find(part.encode(), content.find(b"\0", at))

    def strings(self) -> Iterator[tuple[int, str]]:
        """Address and text of every C string."""
        for first, content, strings in self._constants:
            at = 0
            while strings and at < len(content):
                end = content.find(b"\0", at)
                if end > at:
                    yield first + at, content[at:end].decode("utf-8", "replace")
                if end < 0:
                    return
                at = end + 1

    def _text_of(self, content: bytes, start: int) -> str:
        end = content.find(b"\0", start)
        if end < 0:
            raise self._broken("a string does not end")
        return content[start:end].decode("utf-8", "replace")

    def _broken(self, why: str) -> TableError:
        return TableError(f"{self.name} is truncated or corrupted: {why}", "Download the wheel again.")


def quiet() -> warnings.catch_warnings[None]:
    """lief warns of a number in the file that it has no name for; here it is just not the one that is looked for."""
    return warnings.catch_warnings(action="ignore", category=RuntimeWarning)


def _check_names(path: Path) -> None:
    """Refuse names that are very long, or overlap: lief copies each, which makes terabytes of a file of 16 MB.

    Raises:
        TableError: the names of the symbols are together longer than the file, or one is longer than ``LONGEST_NAME``.
    """
    size, total = path.stat().st_size, 0
    with path.open("rb") as file:
        header = file.read(HEADER)
        count, length = struct.unpack_from("<II", header.ljust(HEADER, b"\0"), 16)
        commands = file.read(min(length, size))
        at = 0
        for _ in range(count):
            if at + 24 > len(commands):
                break
            kind, step, symbols_at, symbols, names_at, _ = struct.unpack_from("<6I", commands, at)
            if kind == LC_SYMTAB:
                if symbols > MOST_SYMBOLS:
                    raise TableError(f"{path.name} is no library of a wheel: it has more than {MOST_SYMBOLS:,} symbols")
                file.seek(names_at)
                names = np.frombuffer(file.read(), np.uint8)  # lief reads on behind the end of the table
                ends = np.append(np.flatnonzero(names == 0), len(names))
                file.seek(symbols_at)
                data = file.read(min(symbols * SYMBOL.itemsize, size))
                starts = np.frombuffer(data, SYMBOL, len(data) // SYMBOL.itemsize)["name"].astype(np.int64)
                starts = starts[starts < len(names)]
                lengths = ends[np.searchsorted(ends, starts)] - starts
                total += int(lengths.sum())
                if total > size or lengths.max(initial=0) > LONGEST_NAME:
                    raise TableError(f"{path.name} is no library of a wheel: its symbols have names without end")
            at += max(step, 8)


def parsed_library(path: Path, cpu: lief.MachO.Header.CPU_TYPE = ARM64) -> lief.MachO.Binary:
    """A library for one kind of machine, as lief parses it. Raises TableError: the file is none."""
    with path.open("rb") as file:
        magic = file.read(4)
    if magic != THIN:  # also a file for several machines: no wheel has one
        raise _no_library(path)
    _check_names(path)
    parsed = lief.MachO.parse(str(path), lief.MachO.ParserConfig.quick)
    binary = None if parsed is None or not len(parsed) else parsed.at(0)
    with quiet():
        fits = binary is not None and binary.header.cpu_type is cpu
    if binary is None or not fits:
        raise _no_library(path)
    return binary


def _no_library(path: Path) -> TableError:
    return TableError(f"{path.name} is not a whole arm64 Mach-O library", "Download the wheel again.")
