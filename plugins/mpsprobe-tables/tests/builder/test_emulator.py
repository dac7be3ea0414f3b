"""Reading single functions: calls, what they are handed, and stores. Instructions are encoded as the manual says."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator, Sequence

from mpsprobe_tables.builder.emulator import (
    ALLOCATION,
    MOST_ALTERNATIVES,
    STACK,
    Call,
    Event,
    Incoming,
    Made,
    Place,
    State,
    Store,
    either,
    run,
)

AT = 0x10000
RETURN = 0xD65F03C0
CONSTANT_AT, CONSTANT = 0x20000, b"exp_kernel_with_a_long_name\0"
NEW, OTHER = 0x90000, 0x80000  # functions that are called
MAKE_ROOM = 0xD10103FF  # sub sp, sp, #64


class _Library:
    """One function at ``AT``, some constants, and what allocates memory."""

    def __init__(self, words: Sequence[int]) -> None:
        self._code = struct.pack(f"<{len(words)}I", *words)

    def code(self, address: int) -> bytes:
        assert address == AT
        return self._code

    def constant(self, address: int, length: int) -> bytes | None:
        start = address - CONSTANT_AT
        return CONSTANT[start : start + length] if 0 <= start <= len(CONSTANT) - length else None

    def symbol_at(self, address: int) -> str | None:
        return ALLOCATION if address == NEW else None


def _events(*words: int) -> list[Event]:
    return list(run(_Library(words), AT))


def _calls(*words: int) -> Iterator[Call]:
    """Their state is the one there until the next is asked for."""
    return (event for event in run(_Library(words), AT) if isinstance(event, Call))


def _handed(*words: int) -> Call:
    """The first call of ``OTHER`` in ``words``."""
    return next(call for call in _calls(*words) if call.target == OTHER)


def _number(register: int, value: int, part: int = 0, opcode: int = 0xD2800000) -> int:
    """``movz``, and ``movk`` with the other opcode."""
    return opcode | part << 21 | value << 5 | register


def _jump(target: int, here: int, opcode: int = 0x94000000) -> int:
    """``bl``, and ``b`` with the other opcode."""
    return opcode | (target - AT) // 4 - here & 0x3FFFFFF


B, MOVK = 0x14000000, 0xF2800000


def test_what_a_call_is_handed_first() -> None:
    cases = {
        "a number in two parts": ([_number(0, 0x7865), _number(0, 0x70, 1, MOVK)], 0x707865),
        "two branches": (
            [0xB4000073, _number(0, 1), _jump(AT + 16, 2, B), _number(0, 2)],
            frozenset({1, 2}),
        ),  # cbz x19
        "a choice by condition": ([_number(1, 5), _number(2, 6), 0x9A820020], frozenset({5, 6})),  # csel x0, x1, x2, eq
        "what is not decoded": ([_number(0, 5), 0x8B010000], None),  # add x0, x0, x1
        "memory that is not known": ([_number(0, 5), 0xF9400020], None),  # ldr x0, [x1]
        "an argument on the stack": ([0xD10083FF, 0xF94017E0], Incoming(9)),  # sub sp, sp, #32; ldr x0, [sp, #40]
        "behind a return": ([_number(0, 5), RETURN], None),
    }
    found = {name: _handed(*words, _jump(OTHER, len(words))).argument(0) for name, (words, _) in cases.items()}
    assert found == {name: value for name, (_, value) in cases.items()}


def test_what_is_called_is_told_and_a_jump_out_too() -> None:
    calls = _calls(_jump(OTHER, 0), _jump(0x84000, 1, B))
    assert [(call.address, call.target) for call in calls] == [(AT, OTHER), (AT + 4, 0x84000)]


def test_a_call_forgets_the_registers_that_it_may_change() -> None:
    words = [_number(0, 1), _number(19, 2), _jump(OTHER, 2), 0xAA1303E1, _jump(OTHER, 4)]  # mov x1, x19
    assert [(call.argument(0), call.argument(1)) for call in _calls(*words)] == [(1, Incoming(1)), (None, 2)]


def test_addresses_and_stores_are_told() -> None:
    next_page = 0x90000008 | 1 << 29  # adrp x8
    assert _events(next_page, 0x91004108, RETURN) == [Made(0x11010)]  # add x8, x8, #0x10
    assert _events(0x10000088, RETURN) == [Made(AT + 0x10)]  # adr x8, #0x10
    assert _events(next_page, _number(9, 0x1234), 0xF9000D09, RETURN) == [Store(0x11018, 0x1234)]  # str x9, [x8, #24]
    pair = (next_page, _number(9, 1), _number(10, 2), 0xA9012909, RETURN)  # stp x9, x10, [x8, #16]
    assert _events(*pair) == [Store(0x11010, 1), Store(0x11018, 2)]


def test_a_long_string_is_copied_from_the_constants() -> None:
    call = _handed(
        MAKE_ROOM,
        _jump(NEW, 1),
        0xF90007E0,  # str x0, [sp, #8]
        0x90000088,  # adrp x8, 0x20000
        0x3DC00100,  # ldr q0, [x8]
        0xF9400909,  # ldr x9, [x8, #16]
        0x3D800000,  # str q0, [x0]
        0xF9000809,  # str x9, [x0, #16]
        _number(10, 24),
        _number(11, 0x8000, 3),
        0xA9012FEA,  # stp x10, x11, [sp, #16]
        0x910023E1,  # add x1, sp, #8
        _jump(OTHER, 12),
    )
    assert call.state.string(call.argument(1)) == CONSTANT[:24].decode()


def test_any_bytes_are_read_without_an_error() -> None:
    source = random.Random(7)
    for _ in range(300):
        for call in _calls(*(source.getrandbits(32) for _ in range(64))):
            call.state.string(call.argument(2))


def _with_string(text: bytes, length: int | None = None) -> State:
    """A state with a string where the stack begins; ``length`` is its last byte."""
    content = [*text.ljust(23, b"\0")[:23], len(text) if length is None else length]
    return State(memory={(STACK, index): byte for index, byte in enumerate(content)})


def test_a_string_is_known_where_all_its_bytes_are() -> None:
    for text in (b"", b"a_name_of_22_character"):
        assert _with_string(text).string(Place(STACK, 0)) == text.decode()
    for missing in (0, 2, 23):
        state = _with_string(b"exp")
        del state.memory[STACK, missing]
        assert state.string(Place(STACK, 0)) is None
    for value in (None, 4096, Incoming(0), frozenset({1, 2})):
        assert _with_string(b"exp").string(value) is None
    text = b"a_name_that_is_longer_than_22_characters"
    state = _with_string(b"", 0x80)
    state.pointers[STACK, 0] = Place(3, 8)
    for length, held, known in ((len(text), b"", None), (len(text), text, text.decode()), (2**64 - 1, text, None)):
        state.memory |= {(STACK, 8 + index): byte for index, byte in enumerate(length.to_bytes(8, "little"))}
        state.memory |= {(3, 8 + index): byte for index, byte in enumerate(held)}
        assert state.string(Place(STACK, 0)) == known


def test_two_ways_keep_what_they_share() -> None:
    place = Place(STACK, 8)
    one = State({0: 1, 1: 5, 2: place, 3: Incoming(3), 4: 7}, {0: b"a", 1: b"b"}, {(0, 0): 1, (0, 1): 2})
    other = State({0: 1, 1: 6, 2: place, 3: place}, {0: b"a"}, {(0, 0): 1, (0, 1): 3})
    one.pointers, other.pointers = {(0, 8): Place(1, 0)}, {(0, 8): Place(2, 0)}
    one.meet(other)
    assert one.registers == {0: 1, 1: frozenset({5, 6}), 2: place}
    assert (one.memory, one.vectors, one.pointers) == ({(0, 0): 1}, {0: b"a"}, {})


def test_alternatives_add_up_until_there_are_too_many() -> None:
    assert either(frozenset({1, 2}), 3) == either(frozenset({1, 2, 3}), 3) == frozenset({1, 2, 3})
    for one, other in ((frozenset(range(MOST_ALTERNATIVES)), MOST_ALTERNATIVES), (1, None), (1, Place(STACK, 0))):
        assert either(one, other) is None


def test_arguments_lie_in_registers_and_then_on_the_stack() -> None:
    state = State.at_entry()
    assert [state.argument(index) for index in (0, 7, 8)] == [Incoming(0), Incoming(7), None]
    state.pointers[STACK, 8] = Place(STACK, -40)
    assert state.argument(9) == Place(STACK, -40)
    del state.registers[31]
    assert state.argument(9) is None
