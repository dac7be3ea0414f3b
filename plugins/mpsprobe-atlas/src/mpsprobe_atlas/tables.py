"""The data that verdicts rest on, as a sweep had it and as it is here."""

# ruff: noqa: PTH118, PTH120, PTH123
# Importing pathlib costs more than to read all of it.
from __future__ import annotations

import hashlib
import os

import mpsprobe_coverage

_DATA = ("kernels", "advisories", "chips")


def tables() -> str:
    """A digest of all data that verdicts rest on: kernel tables, advisories, chips; in hexadecimal."""
    digest = hashlib.sha256()
    for room in _DATA:
        folder = os.path.join(os.path.dirname(mpsprobe_coverage.__file__), room, "data")
        with os.scandir(folder) as entries:
            files = sorted((one.name, one.path) for one in entries if one.is_file())
        for name, path in files:
            with open(path, "rb") as file:
                content = hashlib.sha256(file.read()).digest()
            digest.update(f"{room}/{name}\0".encode() + content)
    return digest.hexdigest()
