"""A second source on a Mac: what PyTorch's own profiler of MPS writes about fallbacks.

With ``PYTORCH_MPS_LOG_PROFILE_INFO=4`` (``CPU_FALLBACK_INFO`` in ``ATen/mps/MPSProfiler.h``), set before torch is
imported, each fallback writes a line to standard error::

    CPU Fallback::aten::linalg_svd:MPS:Float[4, 4] (id=1, run=3, CopyOverhead=64.00 Bytes)

``run`` counts the calls of the operator, without its overload, since the process began. Its bytes are not compared:
``mps_fallback`` (``ATen/mps/MPSFallback.mm``) adds up the tensors among the arguments, and where it means the results
takes the last arguments once more, since it asks before there are any.

Nothing here was run on a Mac. The format is that of ``CpuFbInfo::toString`` in ``MPSProfiler.mm``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from mpsprobe_coverage.devices.observed.listener import Happened, Kind

OPTION = ("PYTORCH_MPS_LOG_PROFILE_INFO", "4")
_LINE = re.compile(r"^CPU Fallback::(?P<operator>\w+::\w+)\b.*\(id=\d+, run=(?P<run>\d+), CopyOverhead=", re.MULTILINE)
_DIFFER = "{operator} fell back {seen} times as observed, and {logged} times in the log of PyTorch's profiler"


def logged_fallbacks(log: str) -> Counter[str]:
    runs = {(found["operator"], int(found["run"])) for found in _LINE.finditer(log)}
    return Counter(operator for operator, _ in runs)


def disagreements(calls: Iterable[tuple[Kind, int]], log: str) -> list[str]:
    """Where the ``log`` and the ``calls`` that were observed differ, in sentences; empty where they agree."""
    seen: Counter[str] = Counter()
    for kind, number in calls:
        if Happened.FELL_BACK in kind.happened:
            seen[kind.operator.partition(".")[0]] += number
    logged = logged_fallbacks(log)
    return [
        _DIFFER.format(operator=operator, seen=seen[operator], logged=logged[operator])
        for operator in sorted({*seen, *logged})
        if seen[operator] != logged[operator]
    ]
