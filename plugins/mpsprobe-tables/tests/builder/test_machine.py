"""What is known of values and memory: strings, and what two ways through a function have in common."""

from __future__ import annotations

import pytest

from mpsprobe_tables.builder.machine import MOST_ALTERNATIVES, STACK, Incoming, Place, State, either


def _with_string(text: bytes, length: int | None = None) -> State:
    state = State()
    for index, byte in enumerate(text.ljust(23, b"\0")[:23]):
        state.memory[STACK, index] = byte
    state.memory[STACK, 23] = len(text) if length is None else length
    return state


def test_a_short_string_is_read_from_the_stack() -> None:
    assert _with_string(b"exp").string(Place(STACK, 0)) == "exp"
    assert _with_string(b"a_name_of_22_character").string(Place(STACK, 0)) == "a_name_of_22_character"
    assert _with_string(b"").string(Place(STACK, 0)) == ""


def test_a_long_string_is_read_where_its_address_points() -> None:
    state = _with_string(b"", 0x80)
    text = b"a_name_that_is_longer_than_22_characters"
    state.pointers[STACK, 0] = Place(3, 8)
    for index, byte in enumerate(len(text).to_bytes(8, "little")):
        state.memory[STACK, 8 + index] = byte
    assert state.string(Place(STACK, 0)) is None  # the characters are not known yet
    for index, byte in enumerate(text):
        state.memory[3, 8 + index] = byte
    assert state.string(Place(STACK, 0)) == text.decode()


@pytest.mark.parametrize("missing", [0, 2, 23])
def test_a_string_with_an_unknown_byte_is_unknown(missing: int) -> None:
    state = _with_string(b"exp")
    del state.memory[STACK, missing]
    assert state.string(Place(STACK, 0)) is None


def test_an_impossible_length_is_unknown() -> None:
    state = _with_string(b"", 0x80)
    state.pointers[STACK, 0] = Place(1, 0)
    for index in range(8):
        state.memory[STACK, 8 + index] = 0xFF
    assert state.string(Place(STACK, 0)) is None


@pytest.mark.parametrize("value", [None, 4096, Incoming(0), frozenset({1, 2})])
def test_what_is_no_place_in_own_memory_is_no_string(value: object) -> None:
    assert _with_string(b"exp").string(value) is None  # type: ignore[arg-type]


def test_two_ways_keep_what_they_share() -> None:
    one, other = State(), State()
    one.registers = {0: 1, 1: 5, 2: Place(STACK, 8), 3: Incoming(3), 4: 7}
    other.registers = {0: 1, 1: 6, 2: Place(STACK, 8), 3: Place(STACK, 8)}
    one.memory, other.memory = {(0, 0): 1, (0, 1): 2}, {(0, 0): 1, (0, 1): 3}
    one.vectors, other.vectors = {0: b"a", 1: b"b"}, {0: b"a"}
    one.pointers, other.pointers = {(0, 8): Place(1, 0)}, {(0, 8): Place(2, 0)}
    one.meet(other)
    assert one.registers == {0: 1, 1: frozenset({5, 6}), 2: Place(STACK, 8)}
    assert (one.memory, one.vectors, one.pointers) == ({(0, 0): 1}, {0: b"a"}, {})


def test_alternatives_add_up_until_there_are_too_many() -> None:
    value = either(frozenset({1, 2}), 3)
    assert value == frozenset({1, 2, 3})
    assert either(value, 3) == value
    assert either(frozenset(range(MOST_ALTERNATIVES)), MOST_ALTERNATIVES) is None
    assert either(1, None) is None
    assert either(1, Place(STACK, 0)) is None


def test_arguments_lie_in_registers_and_then_on_the_stack() -> None:
    state = State.at_entry()
    assert state.argument(0) == Incoming(0)
    assert state.argument(7) == Incoming(7)
    assert state.argument(8) is None
    state.pointers[STACK, 8] = Place(STACK, -40)
    assert state.argument(9) == Place(STACK, -40)
    del state.registers[31]
    assert state.argument(9) is None
