"""Writes what a command produced: files atomically, standard output quietly when the reader has gone. Public."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from mpsprobe.errors import OutputError
from mpsprobe.suggestions import printable


class ReaderGone(Exception):
    """Whoever read our standard output closed it (``| head``). The CLI ends quietly on it."""


def check_writable(path: str | Path) -> None:
    """Find out before long work whether ``write_atomically`` could write to ``path``; leaves no trace.

    Raises:
        OutputError: it is a folder, its folder does not exist, or nothing can be written there.
    """
    target = _final_target(path)
    with _told(target):
        descriptor, name = tempfile.mkstemp(prefix=".mpsprobe-", dir=target.parent)
        os.close(descriptor)
        Path(name).unlink()
    _refuse_read_only(target)


def write_atomically(path: str | Path, data: str | bytes) -> None:
    """Write ``data`` so that ``path`` holds either all of it or what it held before.

    Text is written as UTF-8 with the line ends it has. A symbolic link is followed, not replaced.
    The file gets the permissions of the one it replaces, or those of any new file.

    Raises:
        OutputError: it cannot be written; what was at ``path`` is untouched and nothing is left beside it.
    """
    target = _final_target(path)
    _refuse_read_only(target)
    content = data.encode("utf-8", "backslashreplace") if isinstance(data, str) else data
    with _told(target):
        descriptor, name = tempfile.mkstemp(prefix=".mpsprobe-", dir=target.parent)
        temporary = Path(name)
        try:
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            temporary.chmod(_permissions(target))
            temporary.replace(target)
        except BaseException:  # also Ctrl-C: nothing may stay behind
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise


def write_stdout(data: str | bytes) -> None:
    """Write ``data`` to standard output; text ends with a line end, bytes are passed on as they are.

    Raises:
        ReaderGone: the reader closed the pipe.
        OutputError: it cannot be written for another reason (a full disk behind ``>``).
    """
    stream = sys.stdout
    if stream is None:  # started without one (`>&-`, a windowed Python)
        return
    try:
        if isinstance(data, bytes):
            stream.flush()
            stream.buffer.write(data)
        else:
            stream.write(data if data.endswith("\n") or not data else data + "\n")
        stream.flush()
    except OSError as error:
        if is_reader_gone(error):
            raise ReaderGone from error
        raise OutputError(f"cannot write to standard output: {error.strerror}") from error


def deliver(data: str | bytes, path: str | Path | None) -> None:
    """Write ``data`` to the file ``path``, or to standard output for ``None`` and ``-``.

    Raises:
        OutputError: it cannot be written, or bytes would go to a terminal.
        ReaderGone: the reader of standard output closed the pipe.
    """
    if path is not None and str(path) != "-":
        write_atomically(path, data)
        return
    if isinstance(data, bytes) and sys.stdout is not None and sys.stdout.isatty():
        raise OutputError("this format is binary and would garble the terminal", "Name a file: -o PATH")
    write_stdout(data)


def is_reader_gone(error: BaseException) -> bool:
    """Whether ``error`` says that the other end of a pipe is closed; Windows reports it as ``EINVAL``."""
    if isinstance(error, (BrokenPipeError, ReaderGone)):
        return True
    return isinstance(error, OSError) and (
        error.errno == errno.EPIPE or (sys.platform == "win32" and error.errno == errno.EINVAL)
    )


def discard_stdout() -> None:
    """Send what is left in the buffer of standard output nowhere, so that the interpreter's last flush is quiet."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _final_target(path: str | Path) -> Path:
    """Where the data ends up.

    Raises:
        OutputError: it is not a place where a file could be.
    """
    shown = printable(str(path))
    try:
        target = Path(os.path.realpath(path))
        if not str(path) or target.is_dir():
            raise OutputError(f"cannot write to '{shown}': it is a folder", "Name a file in it.")
        if target.exists() and not target.is_file():
            raise OutputError(f"cannot write to '{shown}': it is not a regular file", "Use '-' for standard output.")
        if not target.parent.is_dir():
            raise OutputError(f"cannot write to '{shown}': its folder does not exist", "Make the folder first.")
    except (OSError, ValueError) as error:  # a name too long, a loop of links, a null character
        raise OutputError(f"cannot write to '{shown}': {_reason(error)}") from error
    return target


def _refuse_read_only(target: Path) -> None:
    """A file that is write-protected is not replaced, though its folder would allow it."""
    if target.exists() and not os.access(target, os.W_OK):
        raise OutputError(f"cannot write to '{printable(str(target))}': it is write-protected", "Choose another path.")


def _permissions(target: Path) -> int:
    """Those of the file that is replaced; else those of a new file, which ``mkstemp`` does not give."""
    try:
        return target.stat().st_mode & 0o777
    except FileNotFoundError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask


@contextlib.contextmanager
def _told(target: Path) -> Iterator[None]:
    """Turns an ``OSError`` into an ``OutputError`` that names ``target``."""
    try:
        yield
    except OSError as error:
        raise OutputError(f"cannot write to '{printable(str(target))}': {_reason(error)}") from error


def _reason(error: Any) -> str:
    return printable(str(getattr(error, "strerror", None) or error))


class Formats(Protocol):
    """What knows the exporters: the registry."""

    def exporter_for(self, path: str, /) -> str | None: ...

    def exporter(self, name: str, /) -> Any: ...


def choose_format(formats: Formats, format_name: str | None, output: str | None) -> tuple[str, bool]:
    """The exporter for ``--format`` and ``-o``, and whether it writes a file: asked before the long work.

    Without ``--format`` the extension of the file decides; without that it is ``json`` for a file, ``table`` elsewhere.

    Raises:
        OutputError: the file cannot be written.
        MpsprobeError: there is no such exporter.
    """
    path = None if output == "-" else output
    if path is not None:
        check_writable(path)
    found = format_name or (formats.exporter_for(path) if path is not None else None)
    name = found or ("table" if path is None else "json")
    formats.exporter(name)
    return name, path is not None
