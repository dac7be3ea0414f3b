"""A plugin's library as the dynamic linker would lay it out: segments, functions, pointers to what it imports.

``lief`` parses the file; the pointers that the linker fills in are found here, with bounds: those of older libraries by
the table of indirect symbols, those of newer ones by walking their chains (``<mach-o/fixup-chains.h>``).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import lief

from mpsprobe.errors import TableError
from mpsprobe_tables.builder.macho import N_SECT, N_STAB, N_TYPE, parsed_library, quiet

ARCHITECTURES = {"arm64": lief.MachO.Header.CPU_TYPE.ARM64, "x86_64": lief.MachO.Header.CPU_TYPE.X86_64}
LARGEST_IMAGE = 256 << 20  # bytes in memory; the plugin's has 3.5 MB
POINTERS = (lief.MachO.Section.TYPE.NON_LAZY_SYMBOL_POINTERS, lief.MachO.Section.TYPE.LAZY_SYMBOL_POINTERS)
OFFSETS_FORMAT, IMPORTS_FORMAT = 6, 1  # DYLD_CHAINED_PTR_64_OFFSET, DYLD_CHAINED_IMPORT
NO_CHAIN = 0xFFFF  # DYLD_CHAINED_PTR_START_NONE
MOST_IMPORTS = 100_000


@dataclass(frozen=True)
class Segment:
    """Address, what the file has of it, and its size in memory, in bytes."""

    address: int
    content: bytes
    size: int


class Image:
    """A Mach-O library of one architecture.

    Raises TableError: the file is truncated, corrupted, or something else than a library for one of these machines.

    Attributes:
        architecture: ``arm64`` or ``x86_64``.
        macos_minimum: the oldest macOS that it was built for (``12.1``); None where the file does not say.
        segments: what is in memory.
        pointers: address of each pointer that the linker fills in → the symbol that it points to, or an address.
        functions: symbol → address, of what the library itself defines.
    """

    def __init__(self, path: Path, architecture: str) -> None:
        self.name = path.name
        self.architecture = architecture
        if path.stat().st_size > LARGEST_IMAGE:
            raise TableError(f"{path.name} is larger than any plugin: {path.stat().st_size} bytes")
        lief.logging.disable()
        self._data = path.read_bytes()
        parsed = parsed_library(path, ARCHITECTURES[architecture])
        self.segments = list(self._segments(parsed))
        self.functions = {
            str(symbol.name): symbol.value for symbol in parsed.symbols if symbol.raw_type & (N_STAB | N_TYPE) == N_SECT
        }
        self.pointers: dict[int, str | int] = dict(self._indirect(parsed))
        self.macos_minimum = _minimum(parsed)
        fixups = parsed.dyld_chained_fixups
        if fixups is not None:
            try:
                self.pointers.update(self._chained(fixups.data_offset, fixups.data_size))
            except (struct.error, ValueError, UnicodeDecodeError, IndexError) as error:
                raise self._broken("the chains of its pointers do not fit") from error

    def _segments(self, parsed: lief.MachO.Binary) -> Iterator[Segment]:
        total = 0
        for segment in parsed.segments:
            end = segment.file_offset + segment.file_size
            total += segment.virtual_size
            if end > len(self._data) or segment.file_size > segment.virtual_size or total > LARGEST_IMAGE:
                raise self._broken(f"its segment {str(segment.name)[:20]!r} does not fit")
            yield Segment(segment.virtual_address, self._data[segment.file_offset : end], segment.virtual_size)

    def _indirect(self, parsed: lief.MachO.Binary) -> Iterator[tuple[int, str]]:
        """Pointers in sections of nothing else; ``reserved1`` is where their symbols begin (see loader.h)."""
        table = parsed.dynamic_symbol_command
        symbols = [] if table is None else [str(symbol.name) for symbol in table.indirect_symbols]
        for section in parsed.sections:
            with quiet():
                is_pointers = section.type in POINTERS
            if is_pointers:
                first, count = section.reserved1, section.size // 8
                if first + count > len(symbols):
                    raise self._broken("its pointers do not fit")
                for index, symbol in enumerate(symbols[first : first + count]):
                    if symbol:
                        yield section.virtual_address + 8 * index, symbol

    def _chained(self, at: int, size: int) -> Iterator[tuple[int, str | int]]:
        header = self._data[at : at + size]
        _, starts, imports, names, count, kind, compressed = struct.unpack_from("<7I", header)
        if kind != IMPORTS_FORMAT or compressed or count > MOST_IMPORTS:
            raise self._broken(f"the imports of its pointers are of kind {kind}, which is not known here")
        imported = []
        for (word,) in struct.iter_unpack("<I", header[imports : imports + 4 * count]):
            start = names + (word >> 9)
            imported.append(header[start : header.index(b"\0", start)].decode())
        for index in range(struct.unpack_from("<I", header, starts)[0]):
            offset = struct.unpack_from("<I", header, starts + 4 + 4 * index)[0]
            if offset:
                yield from self._chains(header[starts + offset :], self.segments[index], imported)

    def _chains(self, info: bytes, segment: Segment, imported: list[str]) -> Iterator[tuple[int, str | int]]:
        """The pointers of a segment; each chain stays within its page."""
        _, page, kind, _, _, count = struct.unpack_from("<IHHQIH", info)
        if kind != OFFSETS_FORMAT:
            raise self._broken(f"its pointers are of kind {kind}, which is not known here")
        for number, (start,) in enumerate(struct.iter_unpack("<H", info[22 : 22 + 2 * count])):
            at, step = number * page + start, 0 if start == NO_CHAIN else 1
            while step:
                (value,) = struct.unpack_from("<Q", segment.content, at)
                target = imported[value & 0xFFFFFF] if value >> 63 else value & 0xFFFFFFFFF
                yield segment.address + at, target
                step = value >> 51 & 0xFFF
                at += 4 * step
                if at >= (number + 1) * page:
                    raise self._broken("a chain of its pointers leaves its page")

    def _broken(self, why: str) -> TableError:
        return TableError(f"{self.name} is truncated or corrupted: {why}", "Download the wheel again.")


def _minimum(parsed: lief.MachO.Binary) -> str | None:
    built, older = parsed.build_version, parsed.version_min
    if built is not None:
        return f"{built.minos[0]}.{built.minos[1]}"
    return None if older is None else f"{older.version[0]}.{older.version[1]}"
