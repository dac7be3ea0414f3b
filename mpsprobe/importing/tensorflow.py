"""Events of TensorFlow's profiler as those that torch.profiler writes: operators, steps, kernels and copies.

TensorFlow gives an event no category. What it is follows from its process (``/host:CPU``, ``/device:GPU:0``), the row
and the long name, ``model/conv/Conv2D:Conv2D``: a node and its operator (``tsl/profiler/utils/tf_op_utils.cc``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from mpsprobe.importing.columns import MOST_ROWS

PROCESS = re.compile(r"/(host|device):")
OPERATION = re.compile(r"(?:(?P<node>[\w./>\\-]+):)(?P<operator>[A-Za-z_]\w*)", re.ASCII)
STREAM = re.compile(r"Stream\b", re.IGNORECASE)
COPY = re.compile(r"Mem(?:cpy|set)", re.IGNORECASE)
SCOPES = 2
"""Name scopes that are shown as the module: layers are such."""


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
        if event.get("name") == "process_name" and (found := PROCESS.match(name)):
            self._processes[event["pid"]] = found[1] == "device"
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
    found = OPERATION.fullmatch(long) if isinstance(long, str) else None
    if found is None:
        return event if event.get("dur") else None  # marks of thread pools, by the thousand
    scopes = "/".join(found["node"].split("/")[:-1][:SCOPES])
    named = {**args, "module": scopes} if scopes else dict(args)
    return {**event, "name": found["operator"], "cat": "cpu_op", "args": named}
