"""A macOS wheel of torch → what its tests expect of MPS, and the data file that holds it."""

from __future__ import annotations

from mpsprobe.errors import TableError
from mpsprobe_tables.builder.expectations_entries import Entries, read_entries
from mpsprobe_tables.builder.expectations_lists import (
    ERROR_INPUTS,
    FORWARD,
    GRADIENT,
    MEMBER,
    Modifier,
    read_lists,
)
from mpsprobe_tables.builder.python_sources import parse
from mpsprobe_tables.builder.wheel import Wheel
from mpsprobe_tables.expectations import Decorator, Dtypes, Expectations

_TESTS = "torch/testing/_internal"
ENTRY_FILES = (
    f"{_TESTS}/common_methods_invocations.py",
    *(f"{_TESTS}/opinfo/definitions/{name}.py" for name in ("fft", "linalg", "signal", "special", "_masked")),
)
"""The files whose ``op_db`` together are the database; ``opinfo/definitions/__init__.py`` names them."""
_SECTIONS = ((FORWARD, "forward"), (GRADIENT, "gradient"), (ERROR_INPUTS, "error_inputs"))


def has_expectations(wheel: Wheel) -> bool:
    """Whether the wheel carries the lists: torch 2.8.0 and later."""
    return wheel.library == "torch" and wheel.has(MEMBER)


def read_expectations(wheel: Wheel) -> Expectations:
    """What the wheel's tests expect.

    Raises:
        TableError: a file is absent, or is written in a form that is not known; the message names file and line.
    """
    modifiers = read_lists(parse(wheel.text(MEMBER), MEMBER))
    entries = Entries()
    for member in ENTRY_FILES:
        read_entries(parse(wheel.text(member), member), member, entries)
    _check_names(entries, modifiers)
    forward = modifiers[FORWARD]
    return Expectations(
        release=wheel.release,
        wheel=wheel.path.name,
        sha256=wheel.sha256,
        kinds={
            f"{section} {name}": kind
            for function, section in _SECTIONS
            for name, kind in modifiers.get(function, Modifier()).kinds.items()
        },
        lists=_lists(forward),
        gradient_lists=_lists(modifiers[GRADIENT]),
        error_input_lists=_lists(modifiers.get(ERROR_INPUTS, Modifier())),
        supported_complex=forward.supported_complex,
        unsupported_complex=forward.unsupported_complex,
        claimed={entry: tuple(sorted(dtypes)) for entry, dtypes in entries.claimed.items()},
        claimed_backward={entry: tuple(sorted(dtypes)) for entry, dtypes in entries.claimed_backward.items()},
        decorators={
            entry: tuple(Decorator(kind, test, _ordered(dtypes)) for kind, test, dtypes in decorators)
            for entry, decorators in entries.decorators.items()
        },
        entries=frozenset(entries.names),
        elsewhere=frozenset(entries.elsewhere),
        unread=tuple(sorted(entries.unread)),
    )


def _lists(modifier: Modifier) -> dict[str, dict[str, Dtypes]]:
    return {
        name: {entry: _ordered(dtypes) for entry, dtypes in listed.items()} for name, listed in modifier.lists.items()
    }


def _ordered(dtypes: frozenset[str] | None) -> Dtypes:
    return None if dtypes is None else tuple(sorted(dtypes))


def _check_names(entries: Entries, modifiers: dict[str, Modifier]) -> None:
    """The data files separate names by spaces."""
    listed = {entry for modifier in modifiers.values() for them in modifier.lists.values() for entry in them}
    for name in {*entries.names, *entries.elsewhere, *listed}:
        if not name or " " in name or not name.isprintable():
            raise TableError(f"an entry of the database is called {name!a}", "Download the wheel again.")
