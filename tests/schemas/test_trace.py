"""Events in columns: equal lengths, positions inside their tables."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from mpsprobe.schemas.trace import Trace

GOOD: dict[str, Any] = {
    "names": ["step 0", "aten::mm"],
    "categories": ["step", "operator"],
    "tracks": [{"name": "main thread", "kind": "host"}],
    "details": [{"shapes": "2x3, 3x4"}],
    "name": [0, 1],
    "category": [0, 1],
    "track": [0, 0],
    "detail": [-1, 0],
    "flow": [0, 0],
    "start_ns": [0, 100],
    "duration_ns": [1000, 50],
    "counters": [{"name": "allocated_bytes", "times_ns": [0, 10], "values": [1.0, 2.0]}],
}


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        ({"name": [0]}, "different lengths"),
        ({"name": [0, 2]}, "outside its table"),
        ({"name": [0, -1]}, "outside its table"),
        ({"detail": [-2, 0]}, "outside its table"),
        ({"track": [0, 1]}, "outside its table"),
        ({"duration_ns": [10, -1]}, "ends before it starts"),
        ({"counters": [{"name": "power", "times_ns": [0], "values": []}]}, "different numbers"),
        ({"categories": ["step", "nonsense"]}, "categories"),
    ],
)
def test_a_broken_trace_is_refused(broken: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        Trace.model_validate({**GOOD, **broken})


def test_a_long_trace_is_checked_quickly() -> None:
    count = 200_000
    columns: dict[str, Any] = {name: [0] * count for name in ("name", "category", "track", "detail", "flow")}
    times = {"start_ns": list(range(count)), "duration_ns": [1] * count}
    assert len(Trace.model_validate({**GOOD, **columns, **times}).start_ns) == count
    trace = Trace.model_validate(GOOD)
    assert Trace.model_validate_json(trace.model_dump_json()) == trace
