"""Changes bytes and documents at random."""

from __future__ import annotations

import copy
import struct
from random import Random
from typing import Any

from mpsprobe_devkit.testing.mutations import HOSTILE_TEXTS

NUMBERS = (0, 1, 2**7, 2**15, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1)
TEXTS = (*HOSTILE_TEXTS.values(), "x y", "*", "-", "..", "1e999")
VALUES: tuple[Any, ...] = (
    *(None, True, False, -1, 0.5, -0.0, 1e308, float("inf"), float("nan"), -(2**63), 10**20, 10**400),
    *([], {}, [[]], {"": ""}, ["a"], [None], {"a": 1}, [[[[1]]]]),
)


def bytes_changed(data: bytes, random: Random) -> bytes:
    """``data`` with one to four changes: bytes overwritten, cut off, cut out, repeated, or a number in their place."""
    changed = bytearray(data)
    for _ in range(random.randint(1, 4)):
        if not changed:
            break
        place, length = random.randrange(len(changed)), random.randint(1, 64)
        match random.randrange(6):
            case 0:
                changed[place] = random.randrange(256)
            case 1:
                changed[place] ^= 1 << random.randrange(8)
            case 2:
                del changed[place : place + length]
            case 3:
                other = random.randrange(len(changed))
                changed[place:place] = changed[other : other + length]
            case 4:
                size = random.choice(("<H", "<I", "<Q", ">I"))
                number = random.choice(NUMBERS) + random.randint(-1, 1)
                packed = struct.pack(size, number % (1 << (8 * struct.calcsize(size))))
                changed[place : place + len(packed)] = packed
            case _ if random.random() < 0.3:
                del changed[place:]
    return bytes(changed)


def document_changed(document: Any, random: Random) -> Any:
    """``document`` (lists, dictionaries and values) with one to four parts gone, repeated or other ones, as a copy."""
    for _ in range(random.randint(1, 4)):
        document = _change(document, random)
    return document


def _change(document: Any, random: Random) -> Any:
    changed = part = copy.copy(document)  # copied is only what is on the way to the change
    while part:
        key = random.choice(list(part)) if isinstance(part, dict) else random.randrange(len(part))
        inner = part[key]
        if isinstance(inner, (dict, list)) and inner and random.random() < 0.7:
            inner = part[key] = copy.copy(inner)
            part = inner
            continue
        match random.randrange(6):
            case 0:
                del part[key]
            case 1 if isinstance(part, list):
                part += part[: random.randint(1, 50)]
            case 1:
                part[random.choice(TEXTS)] = inner
            case 2:
                part[key] = random.choice(TEXTS)
            case 3:
                part[key] = random.choice(NUMBERS) * random.choice((1, -1))
            case _:
                part[key] = random.choice(VALUES)
        break
    return changed
