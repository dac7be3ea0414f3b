"""Dictionaries, lists, text and whole numbers as a pickle: what is written here can name no class.

Opcodes: Python's ``pickletools``. Those used are of the few that the page of ``memory_viz`` reads; it puts the items of
a list on JavaScript's stack, so that long lists are written in parts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

PROTO, STOP, MARK = b"\x80\x04", b".", b"("
EMPTY_DICT, SETITEMS, EMPTY_LIST, APPENDS = b"}", b"u", b"]", b"e"
BINUNICODE, MEMOIZE, LONG_BINGET, LONG1 = b"X", b"\x94", b"j", b"\x8a"
TOGETHER = 1000


def pickled(value: Any) -> bytes:
    """``value`` as a pickle; equal texts are in it once.

    Raises:
        TypeError: something in it is neither a dictionary, a list, text nor a whole number.
    """
    return b"".join((PROTO, *_written(value, {}), STOP))


def _written(value: Any, memo: dict[str, int]) -> Iterator[bytes]:
    if isinstance(value, str):
        if value in memo:
            yield LONG_BINGET + memo[value].to_bytes(4, "little")
        else:
            memo[value] = len(memo)
            text = value.encode("utf-8", "backslashreplace")  # a lone surrogate
            yield BINUNICODE + len(text).to_bytes(4, "little") + text + MEMOIZE
    elif isinstance(value, int):
        size = value.bit_length() // 8 + 1
        yield LONG1 + bytes([size]) + value.to_bytes(size, "little", signed=True)
    elif isinstance(value, dict):
        yield EMPTY_DICT + MARK
        for pair in value.items():
            for one in pair:
                yield from _written(one, memo)
        yield SETITEMS
    elif isinstance(value, list):
        yield EMPTY_LIST
        for start in range(0, len(value), TOGETHER):
            yield MARK
            for one in value[start : start + TOGETHER]:
                yield from _written(one, memo)
            yield APPENDS
    else:
        raise TypeError(f"a {type(value).__name__} cannot be written")
