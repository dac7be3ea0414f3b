"""Messages that MPS code raises with, read from libraries that are made here; and what was decided of the real ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_library import Call, Load, MadeLibrary, Step

from mpsprobe_tables.builder.macho import MachO
from mpsprobe_tables.builder.messages import read_messages
from mpsprobe_tables.messages import decisions, load_messages, message_releases

SOURCE = "/build/pytorch/aten/src/ATen/native/mps/operations/Widgets.mm"
CPU = "/build/pytorch/aten/src/ATen/native/Widgets.cpp"
HEADER = "/build/pytorch/c10/core/TensorImpl.h"
RAISE = "__ZN3c106detail14torchCheckFailEPKcS2_jS2_"
ASSERT = "__ZN3c106detail23torchInternalAssertFailEPKcS2_jS2_S2_"
WARN = "__ZN3c104warnERKNS_7WarningE"


def _read(folder: Path, **functions: list[Step]) -> dict[str, str]:
    path = folder / "library.dylib"
    path.write_bytes(MadeLibrary({f"__Z{name}v": steps for name, steps in functions.items()}).build())
    return read_messages(MachO(path))


def _handed(text: str, path: str | None, to: str) -> list[Step]:
    return [Load(text, 3), *([] if path is None else [Load(path, 1)]), Call(to)]


def test_what_a_function_raises_with_is_told_from_what_it_warns_of_and_asserts(tmp_path: Path) -> None:
    steps = [
        *_handed("slow on this system", SOURCE, WARN),
        *_handed("widgets are not supported", SOURCE, RAISE),
        *_handed("count is right", SOURCE, ASSERT),
    ]
    assert _read(tmp_path, kernel=steps) == {"widgets are not supported": "Widgets.mm"}


def test_a_message_that_shares_the_call_of_another_is_found(tmp_path: Path) -> None:
    steps = [*_handed("widgets are not supported", SOURCE, RAISE), Load("not for complex numbers", 3)]
    assert "not for complex numbers" in _read(tmp_path, kernel=steps)


@pytest.mark.parametrize("path", [CPU, HEADER])
def test_what_other_code_raises_with_is_left_out(tmp_path: Path, path: str) -> None:
    mine = [*_handed("must be a matrix", SOURCE, RAISE), *_handed("only for widgets", SOURCE, RAISE)]
    found = _read(tmp_path, kernel=mine, other=_handed("must be a matrix", path, RAISE))
    assert found == {"only for widgets": "Widgets.mm"}


def test_every_message_of_every_release_has_a_guard_or_a_decision() -> None:
    assert message_releases()[0] == "1.12.0"
    undecided = {text for release in message_releases() for text in load_messages(release).undecided()}
    assert sorted(undecided) == []


def test_every_decision_is_about_a_message() -> None:
    texts = {text for release in message_releases() for text in load_messages(release).found}
    every = [pattern for one in decisions() for pattern in one.messages]
    assert len(every) == len(set(every))
    unused = [
        pattern
        for one in decisions()
        for pattern in one.messages
        if not any(type(one)(one.why, (pattern,)).holds(text) for text in texts)
    ]
    assert unused == []
