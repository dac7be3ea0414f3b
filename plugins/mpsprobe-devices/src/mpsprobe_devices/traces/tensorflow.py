"""What TensorFlow's profiler writes: ``*.xplane.pb``, and events as those that torch.profiler writes.

TensorFlow gives an event no category. What it is follows from its process (``/host:CPU``, ``/device:GPU:0``), the row
and the long name, ``model/conv/Conv2D:Conv2D``: a node and its operator (``tsl/profiler/utils/tf_op_utils.cc``).

The fields are those of ``tsl/profiler/protobuf/xplane.proto``. Only they are read, without protobuf: what a length says
is compared with what there is, and nothing is copied that is not wanted.
"""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from mpsprobe.errors import ReportError
from mpsprobe_devices.traces.columns import LONGEST_NAME, MOST_NAMES, MOST_ROWS
from mpsprobe_devices.traces.stream import TraceFile, opened

PROCESS = re.compile(r"/(host|device):")
OPERATION = re.compile(r"(?:(?P<node>[\w./>\\-]+):)(?P<operator>[A-Za-z_]\w*)", re.ASCII)
STREAM = re.compile(r"Stream\b", re.IGNORECASE)
COPY = re.compile(r"Mem(?:cpy|set)", re.IGNORECASE)
SCOPES = 2  # name scopes that are shown as the module: layers are such
MOST_BYTES = 2**31 - 1  # of a protocol buffer
MOST_METADATA = MOST_NAMES
MOST_FACTS = 1_000  # fields of an event, a fact or a name
MOST_PARTS = 2_000_000  # fields of a plane or a row; some 200 bytes of memory for each
HINT = "A profile of TensorFlow is logs/plugins/profile/TIME/HOST.xplane.pb, which tf.profiler writes."
PS_IN_US = 1e6
WANTED = frozenset({"step_num", "correlation_id", "tf_op"})  # facts of events, as TensorFlow calls them


class Translation:
    """Sees every event of a file, in its order; those of other programs stay as they are."""

    def __init__(self) -> None:
        self._processes: dict[object, bool] = {}
        self._rows: dict[tuple[object, object], str] = {}

    def __call__(self, event: Any) -> Any:
        """``event`` as torch.profiler would have written it; ``None`` for one that repeats others."""
        if not isinstance(event, dict) or not isinstance(event.get("pid"), int):
            return event
        args = event.get("args")
        args = args if isinstance(args, dict) else {}
        if event.get("ph") == "M":
            self._heading(event, args)
            return event
        on_device = self._processes.get(event["pid"])
        if on_device is None or "cat" in event or event.get("ph") != "X" or not isinstance(event.get("name"), str):
            return event
        return self._of_device(event, args) if on_device else _of_host(event, args)

    def _heading(self, event: Mapping[str, Any], args: Mapping[str, Any]) -> None:
        name = args.get("name")
        if not isinstance(name, str) or len(self._rows) + len(self._processes) >= 2 * MOST_ROWS:
            return
        if event.get("name") == "process_name" and (process := PROCESS.match(name)):
            self._processes[event["pid"]] = process[1] == "device"
        elif event.get("name") == "thread_name" and isinstance(event.get("tid"), int):
            self._rows[event["pid"], event["tid"]] = name

    def _of_device(self, event: dict[str, Any], args: Mapping[str, Any]) -> dict[str, Any] | None:
        """Kernels and copies lie in streams; the other rows (operators, scopes, steps) are the same time again."""
        row = self._rows.get((event["pid"], event.get("tid")), "")
        if row and not STREAM.match(row):
            return None
        kind = "gpu_memcpy" if COPY.match(event["name"]) else "kernel"
        return {**event, "cat": kind, "args": {**args, "correlation": args.get("correlation_id")}}


def _of_host(event: dict[str, Any], args: Mapping[str, Any]) -> dict[str, Any] | None:
    number = args.get("step_num")
    if isinstance(number, (int, str)) and str(number).isdecimal():
        return {**event, "name": f"ProfilerStep#{number}", "cat": "user_annotation"}
    if "correlation_id" in args:
        return {**event, "cat": "cuda_runtime", "args": {**args, "correlation": args["correlation_id"]}}
    long = args.get("long_name")
    operation = OPERATION.fullmatch(long) if isinstance(long, str) else None
    if operation is None:
        return event if event.get("dur") else None  # marks of thread pools, by the thousand
    scopes = "/".join(operation["node"].split("/")[:-1][:SCOPES])
    named = {**args, "module": scopes} if scopes else dict(args)
    return {**event, "name": operation["operator"], "cat": "cpu_op", "args": named}


class _Damaged(Exception):
    """No protocol buffer, one that is cut off, or one with more than any has; the message says which."""

    def __init__(self, how: str = "it is cut off or damaged there") -> None:
        super().__init__(how)


class XSpaceFile(TraceFile):
    """One file of TensorFlow's: events as those of its JSON."""

    def events(self) -> Iterator[Any]:
        """Each event. What can be read of a damaged file is given before it ends."""
        try:
            with opened(self._path, HINT) as raw:
                size = os.fstat(raw.fileno()).st_size
                if size > MOST_BYTES:
                    raise ReportError(f"{self._shown} is too large to be a protocol buffer", HINT)
                # Not held as a whole: a file may have holes of gigabytes.
                data = memoryview(mmap.mmap(raw.fileno(), size, access=mmap.ACCESS_READ) if size else b"")
        except OSError as error:
            raise ReportError(f"cannot read {self._shown}: {error.strerror or error}", "Check the path.") from error
        empty = True
        planes = rows = 0
        try:
            for number, plane in _fields(data):
                if number == 1 and isinstance(plane, memoryview):
                    planes += 1
                    for event in _plane(plane):
                        rows += event["ph"] == "M"
                        if planes > MOST_ROWS or rows > 2 * MOST_ROWS:
                            raise _Damaged(f"it has more than {MOST_ROWS:,} devices or rows")
                        empty = False
                        yield event
                    self._tell(len(plane))
        except _Damaged as damaged:
            self.problem = str(damaged)
        if empty:
            raise ReportError(f"{self._shown} is no profile of TensorFlow, or has no events", HINT)


def _plane(data: memoryview) -> Iterator[dict[str, Any]]:
    """The events of a plane: a host, or a device. Names come after the lines that use them."""
    plane = _Message(data, MOST_PARTS)
    events: dict[int, tuple[str, str]] = {}
    facts: dict[int, tuple[str, str]] = {}
    for field, names in ((4, events), (5, facts)):
        for entry in map(_Message, plane.parts(field)[:MOST_METADATA]):
            metadata = _Message((entry.parts(2) or [memoryview(b"")])[-1])
            if entry.damaged or metadata.damaged:
                plane.damaged = entry.damaged or metadata.damaged
                break
            names[entry.number(1)] = metadata.text(2), metadata.text(4)  # its name, and a shorter one
    yield {"ph": "M", "name": "process_name", "pid": plane.number(1), "args": {"name": plane.text(2)}}
    for line in plane.parts(3):
        yield from _line(_Message(line, MOST_PARTS), plane.number(1), events, facts)
    if plane.damaged:
        raise plane.damaged


def _line(
    line: _Message, process: int, names: dict[int, tuple[str, str]], facts: dict[int, tuple[str, str]]
) -> Iterator[dict[str, Any]]:
    place = {"pid": process, "tid": line.number(1)}
    yield {"ph": "M", "name": "thread_name", **place, "args": {"name": line.text(11) or line.text(2)}}
    for event in map(_Message, line.parts(4)):
        described = [_Message(fact) for fact in event.parts(4)]
        for part in (event, *described):
            if part.damaged:
                raise part.damaged
        args = dict(_fact(fact, facts) for fact in described)
        args = {key: fact for key, fact in args.items() if key in WANTED}
        name, shown = names.get(event.number(1), ("(no name)", ""))
        if shown:
            args["long_name"] = name
        at = line.number(3) / 1e3 + event.number(2) / PS_IN_US
        yield {"ph": "X", "name": shown or name, "ts": at, "dur": event.number(3) / PS_IN_US, **place, "args": args}
    if line.damaged:
        raise line.damaged


def _fact(fact: _Message, names: dict[int, tuple[str, str]]) -> tuple[str, Any]:
    """The name of a fact and its value; a text may be the name of another one."""
    value: Any = next(iter([*fact.numbers(4), *fact.numbers(3)]), None)
    if fact.numbers(7):
        value = names.get(fact.number(7), ("", ""))[0]
    if fact.parts(5):
        value = fact.text(5)
    return names.get(fact.number(1), ("", ""))[0], value


class _Message:
    """The fields of a protocol buffer, ``most`` of them, as far as it can be read."""

    def __init__(self, data: memoryview, most: int = MOST_FACTS) -> None:
        self._fields: dict[int, list[Any]] = {}
        self.damaged: _Damaged | None = None
        try:
            for count, (number, value) in enumerate(_fields(data)):
                if count == most:
                    raise _Damaged(f"a part of it has more than {most:,} fields")
                self._fields.setdefault(number, []).append(value)
        except _Damaged as damaged:
            self.damaged = damaged

    def numbers(self, field: int) -> list[int]:
        return [value for value in self._fields.get(field, ()) if isinstance(value, int)]

    def parts(self, field: int) -> list[memoryview]:
        return [value for value in self._fields.get(field, ()) if isinstance(value, memoryview)]

    def number(self, field: int) -> int:
        return (self.numbers(field) or [0])[-1]

    def text(self, field: int) -> str:
        parts = self.parts(field)
        return bytes(parts[-1][:LONGEST_NAME]).decode("utf-8", "replace") if parts else ""


def _fields(data: memoryview) -> Iterator[tuple[int, Any]]:
    """Each field's number, with a whole number or the bytes that it has; values of a fixed size are passed over."""
    position, end = 0, len(data)
    while position < end:
        tag, position = _varint(data, position, end)
        number, kind = tag >> 3, tag & 7
        if number == 0:  # no field has it
            raise _Damaged
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
