"""The decoder of addresses, against hand-assembled code and against capstone, an independent decoder."""

from __future__ import annotations

import struct

import capstone
from hypothesis import given
from hypothesis import strategies as st

from mpsprobe_tables.builder.arm64 import Reference, references

START = 0x1_0000_0000
OPCODES = st.sampled_from([0x10000000, 0x90000000, 0x91000000, 0x94000000])
WORDS = st.lists(
    st.one_of(st.integers(0, 0xFFFFFFFF), st.tuples(OPCODES, st.integers(0, 0x03FFFFFF)).map(lambda p: p[0] | p[1]))
)
REGISTERS = {
    **{f"x{number}": number for number in range(29)},
    "x29": 29,
    "fp": 29,
    "x30": 30,
    "lr": 30,
    "sp": 31,
    "xzr": 31,
}


def _by_capstone(words: list[int]) -> list[tuple[int, int | None]]:
    decoder = capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_ARM)
    decoder.skipdata = True
    pages: dict[int, int] = {}
    found: list[tuple[int, int | None]] = []
    for op in decoder.disasm(struct.pack(f"<{len(words)}I", *words), START):
        operands = op.op_str.split(", ")
        if op.mnemonic == "bl":
            found.append((int(operands[0].lstrip("#"), 0), None))
        elif op.mnemonic in ("adr", "adrp"):
            register = REGISTERS[operands[0]]
            pages[register] = int(operands[1].lstrip("#"), 0)
            if op.mnemonic == "adr":
                found.append((pages[register], register))
    return found


def test_an_address_is_made_of_a_page_and_an_offset() -> None:
    words = [0x90000001, 0x91004421]  # adrp x1, this page; add x1, x1, #0x11
    assert list(references(words, START)) == [Reference(START + 0x11, 1)]


def test_a_page_serves_several_additions() -> None:
    words = [0x90000008, 0x91000501, 0x91000902]  # adrp x8; add x1, x8, #1; add x2, x8, #2
    assert [r.address - START for r in references(words, START)] == [1, 2]


def test_an_addition_to_something_else_is_no_address() -> None:
    assert list(references([0x91000501], START)) == []


def test_a_call_goes_backwards_too() -> None:
    assert list(references([0xD503201F, 0x97FFFFFF], START)) == [Reference(START, None)]  # nop; bl to the nop


@given(WORDS)
def test_capstone_agrees(words: list[int]) -> None:
    # An "add" is left out: capstone and we are asked what makes an address, and only we follow pages through it.
    added = {index for index, word in enumerate(words) if word & 0xFF800000 == 0x91000000}
    plain = [0xD503201F if index in added else word for index, word in enumerate(words)]
    ours = [(r.address % 2**64, r.register) for r in references(plain, START)]
    assert ours == [(address % 2**64, register) for address, register in _by_capstone(plain)]
