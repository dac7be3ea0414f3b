"""Reads the JSON of a trace event by event: files of gigabytes are never held as objects.

Python's own ``json`` parses each event; here is only what it lacks, a window that moves over the file. A general
streaming parser was measured for comparison (ijson 3.6 with its C back end: 7.0 and 12.8 µs for an event of two traces,
this one 6.7 and 8.0), and would read the file twice for what stands around the events, and stop at the first ``nan``.
"""

from __future__ import annotations

import codecs
import gzip
import json
import os
import re
import stat
import zlib
from collections.abc import Callable, Iterator
from io import BufferedReader
from pathlib import Path
from typing import Any

from mpsprobe.errors import ReportError
from mpsprobe.suggestions import printable

CHUNK = 1 << 20  # bytes read at once
LONGEST_VALUE = 64 << 20  # characters of one event, or of one value outside the events
LARGEST_RATIO = 64  # unpacked to packed; traces of torch.profiler have 10 to 30, and gzip could give 1,000
NO_BOMB = 16 << 20  # bytes unpacked, up to which nobody asks for the ratio
FEW_EVENTS = 200_000  # up to which nobody asks how many bytes each has
LEAST_BYTES = 8  # of the file for each event; traces of torch.profiler have 16 to 34 where they are packed
NEAR_THE_END = 16  # characters: a literal that is cut off looks like a wrong one
EVENTS = "traceEvents"
HINT = "A trace is what torch.profiler's export_chrome_trace or tensorboard_trace_handler wrote."
OF_REPORTS = "It looks like a report of mpsprobe; its formats come from: mpsprobe export"
_GAP = re.compile(r"[\s,]*")
_SPACE = re.compile(r"\s*")
# What C++ prints for numbers that JSON does not have, and Kineto for values that it does not know.
_WORD = r"-?(?:N/A|nan(?:\([^)\"]*\))?|inf(?:inity)?)(?![\w.])"
_NO_NUMBER = re.compile(_WORD, re.IGNORECASE)
_TEXT_OR_NO_NUMBER = re.compile(rf'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|(?P<word>{_WORD})', re.IGNORECASE | re.DOTALL)


class _Broken(Exception):
    """The text is not JSON from here on, or ends; the message says how."""


class TraceFile:
    """One file with a trace, plain or compressed with gzip; ``tell`` gets the bytes read since its last call."""

    def __init__(self, path: Path, tell: Callable[[int], None] = lambda read: None) -> None:
        self.head: dict[str, Any] = {}  # what the file has besides the events, as far as it has been read
        self.problem: str | None = None  # why reading ended before the end of the file
        self._path = path
        self._tell = tell
        self._shown = printable(str(path))

    def events(self) -> Iterator[Any]:
        """Each event as ``json`` reads it. What can be read of a damaged file is given before it ends."""
        try:
            with opened(self._path, HINT) as raw:
                packed = raw.read(2) == b"\x1f\x8b"
                raw.seek(0)
                stream = gzip.GzipFile(fileobj=raw) if packed else raw
                yield from self._read(_Window(stream, raw, self._tell))
        except OSError as error:
            raise ReportError(f"cannot read {self._shown}: {error.strerror or error}", "Check the path.") from error

    def _read(self, window: _Window) -> Iterator[Any]:
        try:
            window.skip(_SPACE)
            opening = window.character()
        except _Broken as broken:
            raise ReportError(f"{self._shown} is empty" if window.empty else f"{self._shown}: {broken}", HINT) from None
        if opening not in "{[":
            raise ReportError(f"{self._shown} is not JSON", HINT)
        is_trace = False
        try:
            if opening == "[":
                is_trace = True
                yield from _elements(window)
                return
            window.position += 1
            while (key := _key(window)) is not None:
                if key == EVENTS and window.character() == "[":
                    is_trace = True
                    yield from _elements(window)
                else:
                    self.head[key] = window.value()
        except _Broken as broken:
            if not is_trace:
                raise ReportError(f"{self._shown} is not JSON that can be read: {broken}", HINT) from None
            self.problem = str(broken)
        if not is_trace:
            hint = OF_REPORTS if isinstance(self.head.get("kind"), str) else HINT
            raise ReportError(f"{self._shown} is JSON, but no trace: it has no '{EVENTS}'", hint)


def opened(path: Path, hint: str) -> BufferedReader:
    """The file ``path``, open for reading; a pipe is not waited for."""
    raw = os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)), "rb")
    if stat.S_ISREG(os.fstat(raw.fileno()).st_mode):
        return raw
    raw.close()
    raise ReportError(f"{printable(str(path))} is not a regular file", hint)


class _Window:
    """The part of the text that is in memory."""

    def __init__(
        self, stream: gzip.GzipFile | BufferedReader, raw: BufferedReader, tell: Callable[[int], None]
    ) -> None:
        self.position = 0
        self.empty = True
        self._text = ""
        self._ended = False
        self._cut: str | None = None
        self._stream = stream
        self._raw = raw
        self._tell = tell
        self._told = self._unpacked = self._events = 0
        self._decode = codecs.getincrementaldecoder("utf-8-sig")(errors="replace").decode
        self._scan = json.JSONDecoder(strict=False).raw_decode

    def skip(self, pattern: re.Pattern[str]) -> None:
        while True:
            gap = pattern.match(self._text, self.position)
            assert gap is not None
            self.position = gap.end()
            if self.position < len(self._text) or not self._more():
                return

    def character(self) -> str:
        """The next one, which is not consumed."""
        if self.position >= len(self._text) and not self._more():
            raise _Broken(self._cut or "it ends too early")
        return self._text[self.position]

    def value(self) -> Any:
        while True:
            try:
                value, end = self._scan(self._text, self.position)
            except json.JSONDecodeError as error:
                unfinished = error.msg.startswith("Unterminated") or error.pos >= len(self._text) - NEAR_THE_END
                if (unfinished and self._more()) or self._repaired(error.pos):
                    continue
                if unfinished:
                    raise _Broken(self._cut or "it ends within an event: it is cut off") from None
                near = printable(self._text[error.pos : error.pos + 30])
                raise _Broken(f"there is no JSON any more at '{near}' ({error.msg})") from None
            except RecursionError:
                raise _Broken("a value cannot be read: it is nested too deeply") from None
            except ValueError:  # of more than 4,300 digits, which Python does not convert
                raise _Broken("a number cannot be read: it has thousands of digits") from None
            # A number near the end may go on in what was not read yet, with a point or an exponent.
            if end > len(self._text) - NEAR_THE_END and self._text[self.position] not in '{["' and self._more():
                continue
            self.position = end
            return value

    def event(self) -> Any:
        self._events += 1
        if self._events > max(FEW_EVENTS, self._told // LEAST_BYTES):
            raise _Broken(f"it has more than one event for every {LEAST_BYTES} of its bytes")
        return self.value()

    def _repaired(self, at: int) -> bool:
        """Whether a value at ``at`` that JSON does not have was replaced by ``null``, as every one that follows.

        All at once: each event is read again from its start.
        """
        if _NO_NUMBER.match(self._text, at) is None:
            return False
        rest = self._text[at:]
        whole = len(rest) - (0 if self._ended else NEAR_THE_END)

        def replaced(match: re.Match[str]) -> str:
            return "null" if match["word"] and (match.start() == 0 or match.end() <= whole) else match[0]

        self._text = self._text[:at] + _TEXT_OR_NO_NUMBER.sub(replaced, rest)
        return True

    def _more(self) -> bool:
        """Read on; whether there was anything."""
        rest = self._text[self.position :]
        if len(rest) > LONGEST_VALUE:
            raise _Broken(f"a value is longer than {LONGEST_VALUE >> 20} MiB")
        added = ""
        while not added and not self._ended:
            added = self._decoded(max(CHUNK, len(rest)))
        if added:
            self._text = rest + added
            self.position = 0
            self.empty = False
        return bool(added)

    def _decoded(self, size: int) -> str:
        try:
            read = self._stream.read1(size)  # ``read`` would lose what stands before the place where a file is cut
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            self._cut = f"its compressed data are cut off or damaged ({printable(str(error))})"
            read = b""
        self._ended = not read
        position = self._raw.tell()
        self._tell(position - self._told)
        self._told = position
        self._unpacked += len(read)
        if self._unpacked > max(NO_BOMB, LARGEST_RATIO * position):
            raise _Broken(f"its compressed data unpack to more than {LARGEST_RATIO} times their size")
        return self._decode(read, final=self._ended)


def _key(window: _Window) -> str | None:
    """The next key of the object around the events, the window standing at its value; ``None`` at its end."""
    window.skip(_GAP)
    if window.character() == "}":
        return None
    key = window.value()
    window.skip(_SPACE)
    if not isinstance(key, str) or window.character() != ":":
        raise _Broken("a key is missing")
    window.position += 1
    window.skip(_SPACE)
    return key


def _elements(window: _Window) -> Iterator[Any]:
    window.position += 1
    while True:
        window.skip(_GAP)
        if window.character() == "]":
            window.position += 1
            return
        yield window.event()
