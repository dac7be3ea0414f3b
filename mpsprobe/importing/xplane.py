"""Reads what TensorFlow's profiler writes, ``*.xplane.pb``: events as those of TensorFlow's JSON, one after the other.

The fields are those of ``tsl/profiler/protobuf/xplane.proto``. Only they are read, without protobuf: what a length says
is compared with what there is, and nothing is copied that is not wanted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mpsprobe.errors import ReportError
from mpsprobe.importing.stream import TraceFile

MOST_BYTES = 2**31 - 1
"""Of a protocol buffer."""
LONGEST_NAME = 10_000
MOST_NAMES = 1_000_000
HINT = "A profile of TensorFlow is logs/plugins/profile/TIME/HOST.xplane.pb, which tf.profiler writes."
PS_IN_US = 1e6
WANTED = frozenset({"step_num", "correlation_id", "tf_op"})
"""Facts of events, as TensorFlow calls them."""
_Fields = Iterator[tuple[int, Any]]


class _Damaged(Exception):
    """No protocol buffer, or one that is cut off."""


class XSpaceFile(TraceFile):
    """One file of TensorFlow's."""

    def events(self) -> Iterator[Any]:
        """Each event. What can be read of a damaged file is given before it ends.

        Raises:
            ReportError: the file cannot be opened, or is no profile of TensorFlow.
        """
        try:
            if self._path.stat().st_size > MOST_BYTES:
                raise ReportError(f"{self._shown} is too large to be a protocol buffer", HINT)
            data = memoryview(self._path.read_bytes())
        except OSError as error:
            raise ReportError(f"cannot read {self._shown}: {error.strerror or error}") from error
        found = False
        try:
            for number, plane in _fields(data):
                if number == 1 and isinstance(plane, memoryview):
                    for event in _plane(plane):
                        found = True
                        yield event
                    self._tell(len(plane))
        except _Damaged:
            self.problem = "it is cut off or damaged there"
        if not found:
            raise ReportError(f"{self._shown} is no profile of TensorFlow, or has no events", HINT)


def _plane(data: memoryview) -> Iterator[dict[str, Any]]:
    """The events of a plane: a host, or a device. Names come after the lines that use them."""
    identity, name = 0, ""
    events: dict[int, tuple[str, str]] = {}
    facts: dict[int, str] = {}
    lines = []
    damaged = False
    try:
        for number, value in _fields(data):
            if number == 1 and isinstance(value, int):
                identity = value
            elif number == 2:
                name = _text(value)
            elif number == 3 and isinstance(value, memoryview):
                lines.append(value)
            elif number in (4, 5) and isinstance(value, memoryview) and len(events) + len(facts) < MOST_NAMES:
                key, text, shown = _named(value)
                if number == 4:
                    events[key] = text, shown
                else:
                    facts[key] = text
    except _Damaged:
        damaged = True
    yield {"ph": "M", "name": "process_name", "pid": identity, "args": {"name": name}}
    for line in lines:
        yield from _line(line, identity, events, facts)
    if damaged:
        raise _Damaged


def _line(
    data: memoryview, process: int, names: dict[int, tuple[str, str]], facts: dict[int, str]
) -> Iterator[dict[str, Any]]:
    identity, started, title, found = 0, 0, "", []
    for number, value in _fields(data):
        if number == 1 and isinstance(value, int):
            identity = value
        elif number in (2, 11):
            title = _text(value) or title
        elif number == 3 and isinstance(value, int):
            started = value
        elif number == 4 and isinstance(value, memoryview):
            found.append(value)
    yield {"ph": "M", "name": "thread_name", "pid": process, "tid": identity, "args": {"name": title}}
    for one in found:
        metadata = offset = duration = 0
        args: dict[str, Any] = {}
        for number, value in _fields(one):
            if isinstance(value, int):
                metadata, offset, duration = (
                    value if number == place else kept for place, kept in ((1, metadata), (2, offset), (3, duration))
                )
            elif number == 4 and isinstance(value, memoryview):
                key, fact = _fact(value, facts)
                if key in WANTED:
                    args[key] = fact
        name, shown = names.get(metadata, ("(no name)", ""))
        if shown:
            args["long_name"] = name
        at = started / 1e3 + offset / PS_IN_US
        place = {"pid": process, "tid": identity, "args": args}
        yield {"ph": "X", "name": shown or name, "ts": at, "dur": duration / PS_IN_US, **place}


def _fact(data: memoryview, names: dict[int, str]) -> tuple[str, Any]:
    """The name of a fact and its value; a text may be the name of another one."""
    key, found = "", None
    for number, value in _fields(data):
        if number == 1 and isinstance(value, int):
            key = names.get(value, "")
        elif number in (3, 4):
            found = value
        elif number == 5:
            found = _text(value)
        elif number == 7 and isinstance(value, int):
            found = names.get(value, "")
    return key, found


def _named(entry: memoryview) -> tuple[int, str, str]:
    """One entry of a map of metadata: its number, name and shorter name."""
    key, name, shown = 0, "", ""
    for number, value in _fields(entry):
        if number == 1 and isinstance(value, int):
            key = value
        elif number == 2 and isinstance(value, memoryview):
            for inner, text in _fields(value):
                if inner == 2:
                    name = _text(text)
                elif inner == 4:
                    shown = _text(text)
    return key, name, shown


def _fields(data: memoryview) -> _Fields:
    """Each field's number, with a whole number or the bytes that it has; values of a fixed size are passed over."""
    position, end = 0, len(data)
    while position < end:
        tag, position = _varint(data, position, end)
        number, kind = tag >> 3, tag & 7
        if kind == 0:
            value, position = _varint(data, position, end)
            yield number, value
        elif kind == 2:
            size, position = _varint(data, position, end)
            if size > end - position:
                raise _Damaged
            yield number, data[position : position + size]
            position += size
        elif kind in (1, 5):
            position += 8 if kind == 1 else 4
        else:
            raise _Damaged


def _varint(data: memoryview, position: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while position < end and shift < 70:
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
        shift += 7
    raise _Damaged


def _text(value: Any) -> str:
    return bytes(value[:LONGEST_NAME]).decode("utf-8", "replace") if isinstance(value, memoryview) else ""
