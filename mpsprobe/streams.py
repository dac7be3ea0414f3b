"""Standard output: quiet when the reader has gone. Imports nothing that takes long. Public."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from typing import Any, TextIO

from mpsprobe.errors import OutputError


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
