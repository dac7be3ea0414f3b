"""What a step calls, for the model of time: calls that cost the same, with their number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable
from typing import NamedTuple

from mpsprobe_coverage.knowledge.calls.spec import Specs
from mpsprobe_coverage.knowledge.times.costs import Cost, cost
from mpsprobe_coverage.knowledge.times.model import Call
from mpsprobe_coverage.recording.recorder import CallRecord

ON_CPU = ("fallback", "missing")
READS = ("aten::_local_scalar_dense", "aten::equal", "aten::is_nonzero")
MADE_ONCE = ("aten::zero_", "aten::empty")


class Work(NamedTuple):
    """What calls that cost the same have in common."""

    operator: str
    inputs: Specs
    outputs: Specs
    on_cpu: bool


Works = Counter[Work]
"""With the number of calls."""


def is_on_cpu(record: CallRecord) -> bool:
    return record.judgement.verdict in ON_CPU


def works_of(
    records: Iterable[CallRecord],
    phases: Container[str] | None = None,
    on_cpu: Callable[[CallRecord], bool] = is_on_cpu,
) -> Works:
    """The calls of any step but the first: what an optimizer keeps is made in that one alone."""
    works: Works = Counter()
    for record in records:
        if not is_made_once(record) and (phases is None or record.phase in phases):
            works[Work(record.operator, record.inputs, record.outputs, on_cpu(record))] += record.calls
    return works


def calls_of(works: Works) -> list[Call]:
    counted: Counter[tuple[Cost, bool, bool]] = Counter()
    for (operator, inputs, outputs, on_cpu), number in works.items():
        counted[cost(operator, inputs, outputs), on_cpu, operator in READS] += number
    return [Call(known, number, on_cpu, reads) for (known, on_cpu, reads), number in counted.items()]


def is_made_once(record: CallRecord) -> bool:
    return record.phase == "optimizer" and record.operator.startswith(MADE_ONCE)
