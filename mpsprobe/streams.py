"""Standard output, quiet when the reader has gone; notes on standard error. Imports nothing that takes long. Public."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any, TextIO

from mpsprobe.errors import OutputError

QUIET = ContextVar("quiet", default=False)
"""Whether ``--quiet`` was given to the command line that runs: no progress, no notes."""
MOST_REASONS = 3
"""Why an exit code is 1, of as many findings."""


class ReaderGone(BrokenPipeError):
    """Whoever read our standard output closed it (``| head``). The CLI ends quietly on it."""


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


def columns() -> int:
    """How wide the terminal of standard output is; 80 where there is none. ``shutil`` takes 2 ms to import for it."""
    try:
        return int(os.environ["COLUMNS"])
    except (KeyError, ValueError):
        pass
    try:
        return os.get_terminal_size(sys.__stdout__.fileno()).columns or 80  # type: ignore[union-attr]
    except (AttributeError, OSError, ValueError):
        return 80


def note(text: str) -> None:
    """Write ``text`` to standard error, which is neither an error nor the reason of an exit code."""
    if not QUIET.get() and sys.stderr is not None:
        print(text, file=sys.stderr, flush=True)  # noqa: T201


def because(reasons: Sequence[str]) -> str:
    """Lines for standard error that say why ``--fail-on`` ends a command with exit code 1: the first ``reasons``."""
    more = [f"{len(reasons) - MOST_REASONS} more"] if len(reasons) > MOST_REASONS else []
    return "\n".join(f"--fail-on: {line}" for line in (*reasons[:MOST_REASONS], *more))


def write_json(document: Any) -> None:
    """Write ``document`` to standard output; what JSON does not have as its text. Raises as ``write_stdout``."""
    import json

    write_stdout(json.dumps(document, indent=2, default=str))


def is_reader_gone(error: BaseException) -> bool:
    """Whether ``error`` says that the other end of a pipe is closed; Windows reports it as ``EINVAL``."""
    strange = sys.platform == "win32" and isinstance(error, OSError) and error.errno == errno.EINVAL
    return strange or isinstance(error, BrokenPipeError)


def discard(stream: TextIO) -> None:
    """Send what is left in the buffer of ``stream`` nowhere, so that the interpreter's last flush is quiet."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
