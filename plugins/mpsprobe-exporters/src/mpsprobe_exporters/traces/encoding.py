"""Names, categories and times of a written trace as JSON text, without building objects for each event."""

from __future__ import annotations

import json

SEPARATOR = ",\n"
LONGEST_NS = 2**50 - 1  # 13 days: up to here microseconds with three digits are exact to the ns in a double
THOUSANDTHS = tuple(f".{number:03d}" for number in range(1000))
STEP_PREFIX = "ProfilerStep#"
TIMED_STEP = "timed_step"  # the category of a timed step, which was not profiled; ``mpsprobe import`` knows it
# How ``torch.profiler`` calls the categories of a report today; a launch has another name on each device.
CATEGORIES = {
    "step": "user_annotation",
    "phase": "user_annotation",
    "module": "python_function",
    "operator": "cpu_op",
    "kernel": "kernel",
    "copy": "gpu_memcpy",
    "fallback": "fallback",
    "other": "other",
}
_encode = json.JSONEncoder().encode


def text(value: str) -> str:
    """``value`` as a JSON string of ASCII characters."""
    return _encode(value if value.isascii() else in_utf_8(value))


def in_utf_8(value: str) -> str:
    """``value`` without halves of surrogate pairs, which UTF-8 cannot hold."""
    return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def pairs(detail: dict[str, str], taken: frozenset[str]) -> str:
    """The inside of a JSON object of strings; a key in ``taken``, which the writer sets itself, is marked as a note."""
    return ",".join(f"{text(key + ' (note)' if key in taken else key)}:{text(value)}" for key, value in detail.items())


def thousandths(nanoseconds: int) -> str:
    return f"{nanoseconds // 1000}{THOUSANDTHS[nanoseconds % 1000]}"
