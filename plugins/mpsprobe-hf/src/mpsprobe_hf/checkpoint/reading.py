"""Bytes of files that anybody may have written: bounded, from regular files only, inside the checkpoint only."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO, Any, Literal

from mpsprobe.errors import WorkloadError
from mpsprobe.suggestions import an, printable

MEBIBYTE = 2**20
LARGEST_JSON = 32 * MEBIBYTE
"""Bytes of a configuration, an index or a header; the index of a model with 100,000 tensors has about 12 MB."""
MOST_VALUES = 4_000_000
"""Of such a text: each takes some hundred bytes of memory. An index of 100,000 tensors has 200,000."""
MOST_DIGITS = 100
"""Of a whole number in such a text; Python itself stops at 4,300, and says how to go on."""
LARGEST_NUMBER = 2**63
"""Of elements or bytes: what a file cannot have."""
AGAIN = "Download it again, or take it from where it was made."


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor as its file describes it. Its dtype is as torch calls it, or ggml a quantized one (``Q4_K``)."""

    name: str  # its path in the state dict
    dtype: str
    values: int  # elements
    bytes: int  # in the file


@dataclass(slots=True)
class ReadFile:
    """What one file holds."""

    path: Path
    format: Literal["safetensors", "gguf", "pickle"]
    bytes: int  # of the file
    tensors: list[StoredTensor]
    metadata: dict[str, str] = field(default_factory=dict)  # what it says about itself
    imports: Mapping[tuple[str, str], int] = field(default_factory=dict)  # module and name, how often
    notes: list[str] = field(default_factory=list)  # what to know of the reading


def damaged(path: Path, problem: str, hint: str = AGAIN) -> WorkloadError:
    """The error for a file that is not what it should be; it says which and why."""
    return WorkloadError(f"'{printable(str(path))}' {problem}", hint)


def impossible(path: Path, name: str) -> WorkloadError:
    """The error for a tensor with numbers that none can have."""
    return damaged(path, f"has a header with impossible numbers for '{printable(name)}'")


def elements(shape: Sequence[int], name: str, path: Path) -> int:
    """The elements of the tensor ``name``; an error where no file can have so many."""
    count = 1
    for size in shape:
        count *= size
        if count >= LARGEST_NUMBER:
            raise impossible(path, name)
    return count


def open_regular(path: Path) -> tuple[IO[bytes], int]:
    """A regular file, open for reading, and its size in bytes."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # opening a pipe would wait for its writer
            raise damaged(path, "is not a regular file", "Give a file or a folder with weights.")
        stream = path.open("rb")
        return stream, os.fstat(stream.fileno()).st_size
    except (OSError, ValueError) as error:
        raise damaged(path, f"cannot be read: {_reason(error)}", "Check its permissions.") from error


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file."""
    stream, size = open_regular(path)
    with stream:
        if size > LARGEST_JSON:
            raise damaged(path, f"has {size:,} bytes, more than any such file needs ({LARGEST_JSON:,})")
        return parsed(stream.read(LARGEST_JSON), path)


def parsed(text: bytes, path: Path, what: str = "") -> dict[str, Any]:
    """The object in the JSON text of ``path``, or of its ``what`` (``header``)."""
    where = f"has a {what} that" if what else ""
    if sum(map(text.count, (b",", b"[", b"{"))) > MOST_VALUES:
        raise damaged(path, f"{where} has more than {MOST_VALUES:,} values".strip())
    try:
        data = json.loads(text, parse_int=partial(_whole, path, where))
    except RecursionError as error:
        raise damaged(path, f"{where} is nested too deeply".strip()) from error
    except ValueError as error:  # also text that is no UTF-8
        raise damaged(path, f"{where} is not valid JSON: {printable(str(error))}".strip()) from error
    if not isinstance(data, dict):
        raise damaged(path, f"{where} is {an(type(data).__name__)}, not an object".strip())
    return data


def _whole(path: Path, where: str, digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise damaged(path, f"{where} has a number of {len(digits):,} digits".strip())
    return int(digits)


def inside(folder: Path, name: object) -> Path:
    """The path of ``name``, relative and with ``/``, in ``folder``.

    A link may lead to the blobs of the Hub's cache, where the snapshots' files are links, and not elsewhere.
    """
    if not isinstance(name, str) or not name or "\0" in name:
        raise damaged(folder, f"has an index with {an(type(name).__name__)} in the place of a file name")
    try:
        os.fsencode(name)
    except UnicodeEncodeError:  # half of a pair of UTF-16, which JSON can write
        raise damaged(folder, f"has an index that names '{printable(name)}', which no file can have") from None
    parts = PurePosixPath(name).parts
    if ".." in parts or PurePosixPath(name).is_absolute() or PureWindowsPath(name).anchor or "\\" in name:
        raise damaged(folder, f"has an index that names '{printable(name)}', which is not in the folder")
    path = folder / name
    check_inside(folder, path)
    return path


def check_inside(folder: Path, path: Path) -> None:
    """Raise as ``inside`` if ``path`` is a link that leads out of ``folder``."""
    try:
        home, target = folder.resolve(), path.resolve()
    except (OSError, RuntimeError) as error:  # a loop of links
        raise damaged(path, f"cannot be read: {_reason(error)}") from error
    hubs = [Path(*home.parts[:at]) for at, part in enumerate(home.parts) if part == "snapshots"]
    allowed = [home, *(hub / "blobs" for hub in hubs)]
    if not any(target.is_relative_to(place) for place in allowed):
        hint = f"Give that file itself: {printable(str(target))}"
        raise damaged(path, "is a link that leads out of the folder", hint)


def _reason(error: Exception) -> str:
    return printable(str(getattr(error, "strerror", None) or error))
