"""An answer of the cache as a file: compressed JSON. A file that is not one is no answer."""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Mapping
from typing import Any

from mpsprobe.answers import folder

MAGIC = b"mpsprobe answer 2\n"
LARGEST_TEXT = 200 * 2**20
"""Bytes that a file may unpack to."""


def find(key: str, asked: Mapping[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """When the answer under ``key`` was made, in UTC, and its report as data; ``None`` where there is none."""
    content = folder.read(key)
    if content is None:
        return None
    head, packed = content[: len(MAGIC) + 32], content[len(MAGIC) + 32 :]
    if head != _head_of(packed):
        return None
    try:
        unpacking = zlib.decompressobj()
        text = unpacking.decompress(packed, LARGEST_TEXT)
        if not unpacking.eof:
            return None
        data = json.loads(text)
        if data["asked"] != asked or not isinstance(data["made"], str) or not isinstance(data["report"], dict):
            return None
        return data["made"], data["report"]
    except (zlib.error, ValueError, TypeError, KeyError, RecursionError, MemoryError):
        return None


def keep(key: str, asked: Mapping[str, Any], report: Mapping[str, Any]) -> bool:
    """Keep ``report``, as data, under ``key``; False where that is not possible."""
    made = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    try:
        text = json.dumps({"asked": asked, "made": made, "report": report}, allow_nan=False)
    except ValueError:  # in a key that no schema here knows
        return False
    packed = zlib.compress(text.encode(), 6)
    return folder.write(key, _head_of(packed) + packed)


def _head_of(packed: bytes) -> bytes:
    import hashlib  # takes 3 ms, and not every question has an answer

    return MAGIC + hashlib.sha256(packed).digest()
