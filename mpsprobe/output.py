"""Writes what a command produced: files atomically, standard output quietly when the reader has gone. Public."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from pathlib import Path, PurePosixPath
from typing import IO, Any

from mpsprobe.errors import OutputError
from mpsprobe.streams import write_stdout
from mpsprobe.suggestions import printable

if sys.platform != "win32":
    import fcntl

__all__ = [
    "TemporaryFolder", "as_bytes", "check_folder", "check_writable", "deliver", "write_atomically", "write_folder",
    "write_stdout",
]  # fmt: skip


class TemporaryFolder(tempfile.TemporaryDirectory[str]):
    """A new folder for as long as it is open: ``with TemporaryFolder() as path``. This user alone can read it.

    A process that is killed cannot take its folder away. The next one that makes a folder in the same place does: one
    of this user's whose process has ended, by the lock that the system held for that (not on Windows).

    Args:
        parent: the folder that it is made in; by default that for temporary files (``TMPDIR``).

    Raises:
        OSError: none can be made there.
    """

    def __init__(self, parent: str | Path | None = None) -> None:
        place = tempfile.gettempdir() if parent is None else str(parent)
        _take_abandoned(place)
        self._lock: int | None = None
        made = False
        while not made:
            prefix = _TEMPORARY if parent is None else f".{_TEMPORARY}"
            super().__init__(prefix=prefix, dir=place, ignore_cleanup_errors=True)
            self._lock = _locked(self.name, wait=True)
            made = Path(self.name).is_dir()  # until it was locked, another process may have found it abandoned

    def cleanup(self) -> None:
        """Take the folder away, with what is in it."""
        super().cleanup()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


_TEMPORARY = "mpsprobe-temporary-"
_OWN = re.compile(rf"\.?{_TEMPORARY}[a-z0-9_]{{8}}")


def _locked(folder: str, *, wait: bool) -> int | None:
    """A descriptor that locks ``folder``, this user's, until the process ends; ``None`` where that is not possible."""
    if sys.platform == "win32":
        return None
    descriptor = None
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        about = os.fstat(descriptor)
        if about.st_uid != os.getuid() or stat.S_IMODE(about.st_mode) != stat.S_IRWXU:
            raise PermissionError
        fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        if descriptor is not None:
            os.close(descriptor)
        return None
    return descriptor


def _take_abandoned(place: str) -> None:
    with contextlib.suppress(OSError), os.scandir(place) as entries:
        for entry in entries:
            if _OWN.fullmatch(entry.name) and (lock := _locked(entry.path, wait=False)) is not None:
                shutil.rmtree(entry.path, ignore_errors=True)
                os.close(lock)


def check_writable(path: str | Path) -> None:
    """Find out before long work whether ``write_atomically`` could write to ``path``; leaves no trace.

    Raises:
        OutputError: it is a folder, its folder does not exist, or nothing can be written there.
    """
    target = _final_target(path)
    with _told(target):
        TemporaryFolder(target.parent).cleanup()


def write_atomically(path: str | Path, data: str | bytes, check: Callable[[], None] | None = None) -> None:
    """Write ``data`` so that ``path`` holds either all of it or what it held before.

    Text is written as UTF-8 with the line ends it has. A symbolic link is followed, not replaced.
    The file gets the permissions of the one it replaces, or those of any new file.

    Args:
        check: called when all is on disk, before it takes the place of ``path``; what it raises keeps the old file.

    Raises:
        OutputError: it cannot be written; what was at ``path`` is untouched and no other file is left there.
    """
    with _replacing(path, check) as stream:
        stream.write(as_bytes(data))


def write_folder(path: str | Path, files: Iterable[tuple[str, Iterable[bytes]]]) -> Path:
    """Write files into one new folder inside ``path``, which is made if it is missing, and return that new folder.

    Args:
        files: relative paths with ``/``, all beginning with the same folder, and their contents in pieces. If ``path``
            has a folder of that name already, a number is added to it: what is there stays as it is.

    Raises:
        OutputError: nothing can be written there; nothing is left behind.
        ValueError: a path that leads elsewhere.
    """
    parent = Path(os.path.realpath(path))
    existed = parent.exists()
    with _told(parent):
        parent.mkdir(parents=True, exist_ok=True)
        try:
            with TemporaryFolder(parent) as staging:
                name = _write_files(Path(staging), files)
                made = Path(staging, name)
                made.chmod(0o777 & ~_mask())
                numbered = (parent / (name if number == 1 else f"{name}-{number}") for number in count(1))
                return made.rename(next(target for target in numbered if not target.exists()))
        finally:  # also after Ctrl-C
            if not existed:
                with contextlib.suppress(OSError):
                    parent.rmdir()  # only if it is empty: nothing was written


def check_folder(path: str | Path) -> None:
    """Find out before long work whether ``write_folder`` could write into ``path``; leaves no trace.

    Raises:
        OutputError: it is a file, or nothing can be written there.
    """
    target = Path(os.path.realpath(path))
    with _told(target):
        if not str(path) or (target.exists() and not target.is_dir()):
            raise OutputError(f"cannot write to '{printable(str(path))}': it is not a folder", "Name a folder.")
        nearest = next(folder for folder in (target, *target.parents) if folder.exists())
        TemporaryFolder(nearest).cleanup()


def deliver(data: str | bytes | Iterable[bytes], path: str | Path | None) -> None:
    """Write ``data``, whole or in pieces, to the file ``path``, or to standard output for ``None`` and ``-``.

    Raises:
        OutputError: it cannot be written, or bytes would go to a terminal.
        ReaderGone: the reader of standard output closed the pipe.
    """
    pieces: Iterable[str | bytes] = [data] if isinstance(data, (str, bytes)) else data
    if path is not None and str(path) != "-":
        with _replacing(path) as stream:
            stream.writelines(map(as_bytes, pieces))
        return
    if isinstance(data, bytes) and sys.stdout is not None and sys.stdout.isatty():
        raise OutputError("this format is binary and would garble the terminal", "Name a file: -o PATH")
    for piece in pieces:
        write_stdout(piece)


def _final_target(path: str | Path) -> Path:
    shown = printable(str(path))
    try:
        target = Path(os.path.realpath(path))
        if not str(path) or target.is_dir():
            raise OutputError(f"cannot write to '{shown}': it is a folder", "Name a file in it.")
        if target.exists() and not target.is_file():
            raise OutputError(f"cannot write to '{shown}': it is not a regular file", "Use '-' for standard output.")
        if not target.parent.is_dir():
            raise OutputError(f"cannot write to '{shown}': its folder does not exist", "Make the folder first.")
        if target.exists() and not os.access(target, os.W_OK):  # its folder would allow to replace it
            raise OutputError(f"cannot write to '{shown}': it is write-protected", "Choose another path.")
    except (OSError, ValueError) as error:  # a name too long, a loop of links, a null character
        raise OutputError(f"cannot write to '{shown}': {_reason(error)}") from error
    return target


@contextlib.contextmanager
def _replacing(path: str | Path, check: Callable[[], None] | None = None) -> Iterator[IO[bytes]]:
    """A stream whose content takes the place of ``path`` if all goes well; else nothing happened."""
    target = _final_target(path)
    with _told(target), TemporaryFolder(target.parent) as folder:
        temporary = Path(folder, "new")
        with temporary.open("wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        temporary.chmod(_permissions(target))
        if check is not None:
            check()
        temporary.replace(target)


def _write_files(staging: Path, files: Iterable[tuple[str, Iterable[bytes]]]) -> str:
    """Write each file below ``staging``; the name of the folder that they share."""
    names = set()
    for path, content in files:
        parts = PurePosixPath(path).parts
        if len(parts) < 2 or ".." in parts or PurePosixPath(path).is_absolute() or "\\" in path:
            raise ValueError(f"'{printable(path)}' is not a file in a folder below the target")
        names.add(parts[0])
        target = staging.joinpath(*parts)
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as stream:
            stream.writelines(content)
    if len(names) != 1:
        raise ValueError(f"{len(names)} folders instead of one: {printable(', '.join(sorted(names)))}")
    return names.pop()


def as_bytes(data: str | bytes) -> bytes:
    """``data`` as it is written: UTF-8, with escapes for what that cannot hold."""
    return data.encode("utf-8", "backslashreplace") if isinstance(data, str) else data


def _permissions(target: Path) -> int:
    """Those of the file that is replaced; else those of any new file."""
    try:
        return target.stat().st_mode & 0o777
    except FileNotFoundError:
        return 0o666 & ~_mask()


def _mask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@contextlib.contextmanager
def _told(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OutputError(f"cannot write to '{printable(str(target))}': {_reason(error)}") from error


def _reason(error: Any) -> str:
    return printable(str(getattr(error, "strerror", None) or error))
