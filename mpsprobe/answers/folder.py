"""The user's cache folder: answers as files of compressed JSON, whole or not there, bounded in number and size.

A file that is not one is no answer.
"""

# ruff: noqa: PTH103, PTH105, PTH108, PTH111, PTH118, PTH120
# Importing pathlib costs more than an answer from the cache may take.
from __future__ import annotations

import contextlib
import json
import os
import stat
import sys
import time
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from mpsprobe.plugins.discovery import at_once

MAGIC = b"mpsprobe answer 2\n"
LARGEST_TEXT = 200_000_000
"""Bytes that a file may unpack to."""

SUFFIX = ".answer"
UNFINISHED = ".unfinished"
MOST_ENTRIES = 2000
MOST_BYTES = 200_000_000
LARGEST = 20 * 2**20
"""Bytes of one file; a larger one is neither written nor read."""
ABANDONED_S = 3600
"""Seconds after which an unfinished file is one of a process that was killed; from before a clock was put back, too."""
LATEST = 253_402_300_799
"""The last second of the year 9999: a file may be of a later one, and no calendar has that."""


class Kept(NamedTuple):
    path: str
    size: int
    written: float  # in seconds since 1970


def user_folder() -> str:
    """mpsprobe's part of the user's cache folder, as each system has it; ``XDG_CACHE_HOME`` names another."""
    home = os.path.expanduser("~")
    if chosen := os.environ.get("XDG_CACHE_HOME"):
        root = chosen
    elif sys.platform == "win32":
        root = os.environ.get("LOCALAPPDATA") or os.path.join(home, "AppData", "Local")
    elif sys.platform == "darwin":
        root = os.path.join(home, "Library", "Caches")
    else:
        root = os.path.join(home, ".cache")
    return os.path.join(root, "mpsprobe")


def answers_folder() -> str:
    return os.path.join(user_folder(), "answers")


def make_private(folder: str) -> None:
    """Make ``folder``, which is in the user's, and both for this user alone; those that are there stay as they are."""
    for path in (user_folder(), folder):
        os.makedirs(path, mode=0o700, exist_ok=True)


def find(key: str, asked: Mapping[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """When the answer under ``key`` was made, in UTC, and its report as data; ``None`` where there is none."""
    content = read(key)
    if content is None:
        return None
    head, packed = content[: len(MAGIC) + 32], content[len(MAGIC) + 32 :]
    if head != _head_of(key, packed):
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
    return write(key, _head_of(key, packed) + packed)


def _head_of(key: str, packed: bytes) -> bytes:
    """``key`` is in the digest: under another name, a file is no answer."""
    import hashlib  # takes 3 ms, and not every question has an answer

    return MAGIC + hashlib.sha256(key.encode() + packed).digest()


def read(key: str) -> bytes | None:
    """What was written for ``key``; ``None`` where nothing was, or by somebody else."""
    try:
        with open(_path(key), "rb", opener=at_once) as file:
            about = os.fstat(file.fileno())
            if not stat.S_ISREG(about.st_mode) or about.st_size > LARGEST or is_foreign(about):
                return None
            return file.read(LARGEST)
    except OSError:
        return None


def write(key: str, content: bytes) -> bool:
    """Keep ``content`` for ``key``, instead of what was there; False where that is not possible.

    Several processes may write at once: each file is whole, and the last one stays.
    """
    if len(content) > LARGEST:
        return False
    folder = answers_folder()
    unfinished = os.path.join(folder, f"{os.getpid()}-{time.time_ns()}{UNFINISHED}")
    try:
        make_private(folder)
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
            os.replace(unfinished, _path(key))
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(unfinished)
            raise
    except OSError:
        return False
    _make_room()
    return True


def kept() -> list[Kept]:
    """The answers that there are, the oldest first."""
    return sorted(_files(SUFFIX), key=lambda file: file.written)


def clear() -> tuple[int, int]:
    """Delete every answer; how many these were, and their bytes."""
    count = size = 0
    for file in (*_files(SUFFIX), *_files(UNFINISHED)):
        with contextlib.suppress(FileNotFoundError):  # another process was faster
            os.unlink(file.path)
            count, size = count + 1, size + file.size
    return count, size


def is_foreign(about: os.stat_result) -> bool:
    """Whether a file or folder is another user's, or others may write it; Windows has no such bits."""
    return hasattr(os, "getuid") and (about.st_uid != os.getuid() or bool(about.st_mode & 0o022))


def is_own(path: str) -> bool:
    """Whether only this user can have put ``path`` there: it and the folders up to the user's are own, and no links."""
    try:
        about = os.lstat(path)
    except OSError:
        return False
    if stat.S_ISLNK(about.st_mode) or is_foreign(about):
        return False
    return path == user_folder() or is_own(os.path.dirname(path))


def _make_room() -> None:
    """Delete the oldest answers until the rest is within the bounds, and what killed processes left behind."""
    files = kept()
    size = sum(one.size for one in files)
    gone = [one for one in _files(UNFINISHED) if abs(time.time() - one.written) > ABANDONED_S]
    while files and (len(files) > MOST_ENTRIES or size > MOST_BYTES):
        gone.append(files.pop(0))
        size -= gone[-1].size
    for file in gone:
        with contextlib.suppress(OSError):
            os.unlink(file.path)


def _files(suffix: str) -> Iterator[Kept]:
    try:
        with os.scandir(answers_folder()) as entries:
            for entry in entries:
                if entry.name.endswith(suffix):
                    with contextlib.suppress(OSError):
                        about = entry.stat(follow_symlinks=False)
                        if not stat.S_ISDIR(about.st_mode):
                            yield Kept(entry.path, about.st_size, min(max(about.st_mtime, 0), LATEST))
    except OSError:
        return


def _path(key: str) -> str:
    return os.path.join(answers_folder(), key + SUFFIX)
