"""The rooms of mpsprobe-coverage: what judges a call, or counts memory, knows no device that recorded it."""

from __future__ import annotations

import pytest

from tests.house.tree import ROOT, imported, python_files, shown

PACKAGE = "mpsprobe_coverage"
MAY_IMPORT = {
    "cache": set(),
    "kernels": set(),
    "calls": {"kernels"},
    "chips": set(),
    "advisories": {"calls", "chips", "kernels"},
    "judging": {"calls", "kernels"},
    "memory": {"calls"},
}


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_a_room_imports_only_those_below_it(room: str) -> None:
    files = python_files(ROOT / "plugins" / "mpsprobe-coverage" / "src" / PACKAGE / room)
    assert files
    allowed = {room, *MAY_IMPORT[room]}
    assert not {
        f"{shown(path)}: {module}"
        for path in files
        for module in imported(path, PACKAGE)
        if module.split(".")[1] not in allowed
    }
