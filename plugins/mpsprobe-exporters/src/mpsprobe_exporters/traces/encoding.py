"""Names, numbers and times as JSON text, without building objects for each event."""

from __future__ import annotations

import json
from collections.abc import Iterable

LONGEST_NS = 2**50 - 1  # 13 days: up to here microseconds with three digits are exact to the ns in a double
THOUSANDTHS = tuple(f".{number:03d}" for number in range(1000))
_encode = json.JSONEncoder().encode


def text(value: str) -> str:
    """``value`` as a JSON string of ASCII characters; half a surrogate pair, which UTF-8 cannot hold, is replaced."""
    if not value.isascii():
        value = value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return _encode(value)


def pairs(items: Iterable[tuple[str, str]], taken: frozenset[str] = frozenset()) -> str:
    """The inside of a JSON object of strings; a key in ``taken``, which the writer sets itself, is marked as a note."""
    return ",".join(f"{text(key + ' (note)' if key in taken else key)}:{text(value)}" for key, value in items)


def thousandths(nanoseconds: int) -> str:
    """Nanoseconds as microseconds with three digits."""
    return f"{nanoseconds // 1000}{THOUSANDTHS[nanoseconds % 1000]}"


def ticks(nanoseconds: int) -> int:
    """Nanoseconds in 1024ths of a microsecond, rounded; order and equality are kept.

    A reader that adds a start and a duration as floating-point numbers gets exactly the end that was meant: multiples
    of 2⁻¹⁰ are exact, multiples of 0.001 are not, and an event that ends with the one around it would stick out.
    """
    return (nanoseconds * 128 + 62) // 125


def exact(ticked: int) -> str:
    """1024ths of a microsecond as microseconds."""
    return repr(ticked / 1024)
