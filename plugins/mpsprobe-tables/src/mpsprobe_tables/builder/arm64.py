"""What the instructions of one arm64 function refer to, in the order of the code.

Only the four instructions that make or use an address are decoded: ``adr``, ``adrp``, ``add`` with an immediate, ``bl``
(encodings: Arm Architecture Reference Manual, C6.2).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

REGISTER = 0x1F
PAGE = 0xFFF


@dataclass(frozen=True, slots=True)
class Reference:
    """An address that the code makes (``register`` holds it) or calls (``register`` is ``None``)."""

    address: int
    register: int | None


def references(instructions: Sequence[int], address: int) -> Iterator[Reference]:
    """The addresses that ``instructions``, the first of which lies at ``address``, make or call.

    A page that ``adrp`` puts in a register stays known until another ``adrp`` or ``adr`` sets that register:
    compilers keep it for several additions, in straight-line code such as static initialisers.
    """
    pages: dict[int, int] = {}
    for index, word in enumerate(instructions):
        here = address + 4 * index
        if word & 0x1F000000 == 0x10000000:
            offset = _signed((word >> 5 & 0x7FFFF) << 2 | word >> 29 & 3, 21)
            register = word & REGISTER
            if word >> 31:
                pages[register] = (here & ~PAGE) + (offset << 12)
            else:
                pages[register] = here + offset
                yield Reference(here + offset, register)
        elif word & 0xFF800000 == 0x91000000:
            page = pages.get(word >> 5 & REGISTER)
            if page is not None:
                immediate = word >> 10 & 0xFFF
                target = page + (immediate << 12 if word & 0x400000 else immediate)
                register = word & REGISTER
                pages[register] = target
                yield Reference(target, register)
        elif word & 0xFC000000 == 0x94000000:
            yield Reference(here + 4 * _signed(word & 0x3FFFFFF, 26), None)


def _signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value
