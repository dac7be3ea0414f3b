"""Reading single functions: calls, what they are handed, and stores. Instructions are encoded as the manual says."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence

from mpsprobe_tables.builder.emulator import ALLOCATION, Call, Event, Made, Store, run
from mpsprobe_tables.builder.machine import Incoming, Place

AT = 0x10000
RETURN = 0xD65F03C0
CONSTANTS = {0x20000: b"exp_kernel_with_a_long_name\0"}
NEW = 0x90000


def _constant(address: int, length: int) -> bytes | None:
    for start, content in CONSTANTS.items():
        if start <= address and address + length <= start + len(content):
            return content[address - start : address - start + length]
    return None


class _Library:
    """One function at ``AT``, some constants, and what allocates memory."""

    def __init__(self, words: Sequence[int]) -> None:
        self._code = struct.pack(f"<{len(words)}I", *words)

    def code(self, address: int) -> bytes:
        assert address == AT
        return self._code

    def constant(self, address: int, length: int) -> bytes | None:
        return _constant(address, length)

    def symbol_at(self, address: int) -> str | None:
        return ALLOCATION if address == NEW else None


def _events(*words: int) -> list[Event]:
    return list(run(_Library(words), AT))


def _handed(words: Sequence[int], index: int) -> object:
    """What the first call in ``words`` is handed as argument ``index``."""
    for event in run(_Library(words), AT):
        if isinstance(event, Call):
            return event.argument(index)
    raise AssertionError("nothing is called")


def _movz(register: int, value: int, shift: int = 0) -> int:
    return 0xD2800000 | shift << 21 | value << 5 | register


def _movk(register: int, value: int, shift: int) -> int:
    return 0xF2800000 | shift << 21 | value << 5 | register


def _bl(target: int, here: int) -> int:
    return 0x94000000 | (target - here) // 4 & 0x3FFFFFF


def _b(target: int, here: int) -> int:
    return 0x14000000 | (target - here) // 4 & 0x3FFFFFF


def _cbz(register: int, target: int, here: int) -> int:
    return 0xB4000000 | ((target - here) // 4 & 0x7FFFF) << 5 | register


def test_numbers_are_put_together_from_their_parts() -> None:
    words = [_movz(0, 0x7865), _movk(0, 0x70, 1), _bl(0x80000, AT + 8), RETURN]
    assert _handed(words, 0) == 0x707865


def test_what_is_called_is_told_and_a_jump_out_too() -> None:
    events = _events(_bl(0x80000, AT), _b(0x84000, AT + 4))
    assert [(event.address, event.target) for event in events if isinstance(event, Call)] == [
        (AT, 0x80000),
        (AT + 4, 0x84000),
    ]


def test_a_call_forgets_the_registers_that_it_may_change() -> None:
    words = [_movz(0, 1), _movz(19, 2), _bl(0x80000, AT + 8), 0xAA1303E1, _bl(0x80000, AT + 16)]  # mov x1, x19
    calls = [(e.argument(0), e.argument(1)) for e in run(_Library(words), AT) if isinstance(e, Call)]
    assert calls == [(1, Incoming(1)), (None, 2)]


def test_a_function_pointer_is_told() -> None:
    adrp, add = 0x90000008 | 1 << 29, 0x91004108  # adrp x8, next page; add x8, x8, #0x10
    assert _events(adrp, add, RETURN) == [Made(0x11010)]
    assert _events(0x10000088, RETURN) == [Made(AT + 0x10)]  # adr x8, #0x10


def test_a_store_to_an_absolute_address_is_told() -> None:
    words = (0x90000008 | 1 << 29, _movz(9, 0x1234), 0xF9000D09, RETURN)  # str x9, [x8, #24]
    assert _events(*words) == [Store(0x11018, 0x1234)]
    pair = (0x90000008 | 1 << 29, _movz(9, 1), _movz(10, 2), 0xA9012909, RETURN)  # stp x9, x10, [x8, #16]
    assert _events(*pair) == [Store(0x11010, 1), Store(0x11018, 2)]


def test_a_short_string_is_handed_over() -> None:
    words = [
        0xD10103FF,  # sub sp, sp, #64
        _movz(8, 0x7865),
        _movk(8, 0x70, 1),
        0xB9000BE8,  # str w8, [sp, #8]
        0x52800068,  # mov w8, #3
        0x39007FE8,  # strb w8, [sp, #31]
        0x910023E2,  # add x2, sp, #8
        _bl(0x80000, AT + 28),
    ]
    calls = (event for event in run(_Library(words), AT) if isinstance(event, Call))
    found = [(call.argument(2), call.state.string(call.argument(2))) for call in calls]
    assert found == [(Place(0, -56), "exp")]


def test_a_long_string_is_copied_from_the_constants() -> None:
    words = [
        0xD10103FF,  # sub sp, sp, #64
        _bl(NEW, AT + 4),
        0xF90007E0,  # str x0, [sp, #8]
        0x90000088,  # adrp x8, 0x20000
        0x3DC00100,  # ldr q0, [x8]
        0xF9400909,  # ldr x9, [x8, #16]
        0x3D800000,  # str q0, [x0]
        0xF9000809,  # str x9, [x0, #16]
        _movz(10, 24),
        _movz(11, 0x8000, 3),
        0xA9012FEA,  # stp x10, x11, [sp, #16]
        0x910023E1,  # add x1, sp, #8
        _bl(0x80000, AT + 48),
    ]
    call = None
    for event in run(_Library(words), AT):
        if isinstance(event, Call) and event.target == 0x80000:
            call = event.state.string(event.argument(1))
    assert call == "exp_kernel_with_a_long_na"[:24]


def test_what_two_branches_put_differently_is_one_of_both() -> None:
    words = [
        _cbz(19, AT + 12, AT),
        _movz(0, 1),
        _b(AT + 16, AT + 8),
        _movz(0, 2),
        _bl(0x80000, AT + 16),
    ]
    assert _handed(words, 0) == frozenset({1, 2})


def test_a_choice_by_condition_is_one_of_both() -> None:
    words = [_movz(1, 5), _movz(2, 6), 0x9A820020, _bl(0x80000, AT + 12)]  # csel x0, x1, x2, eq
    assert _handed(words, 0) == frozenset({5, 6})


def test_what_is_not_decoded_is_unknown() -> None:
    words = [_movz(0, 5), 0x8B010000, _bl(0x80000, AT + 8)]  # add x0, x0, x1
    assert _handed(words, 0) is None
    words = [_movz(0, 5), 0xF9400020, _bl(0x80000, AT + 8)]  # ldr x0, [x1]
    assert _handed(words, 0) is None


def test_arguments_on_the_stack_belong_to_the_caller() -> None:
    words = [0xD10083FF, 0xF94017E0, _bl(0x80000, AT + 8)]  # sub sp, sp, #32; ldr x0, [sp, #40]
    assert _handed(words, 0) == Incoming(9)


def test_behind_a_return_nothing_is_known() -> None:
    words = [_movz(0, 5), RETURN, _bl(0x80000, AT + 8)]
    assert _handed(words, 0) is None


def test_any_bytes_are_read_without_an_error() -> None:
    source = random.Random(7)
    for _ in range(300):
        words = [source.getrandbits(32) for _ in range(64)]
        for event in run(_Library(words), AT):
            if isinstance(event, Call):
                event.state.string(event.argument(2))
