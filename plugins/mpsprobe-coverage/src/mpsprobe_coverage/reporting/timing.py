"""How long a step was predicted to take on the chip that was asked about."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Sequence

from mpsprobe.protocols import RunOptions
from mpsprobe.schemas import ClassTime, TimePrediction, WorkloadInfo
from mpsprobe_coverage.knowledge.chips.store import Chip, machine_named
from mpsprobe_coverage.knowledge.times.costs import HOST, Cost, cost
from mpsprobe_coverage.knowledge.times.model import ON_CPU, Call, Estimate, Range, estimate, likely_ms
from mpsprobe_coverage.recording.recorder import CallRecord
from mpsprobe_coverage.recording.trace import Trace

READS = ("aten::_local_scalar_dense", "aten::equal", "aten::is_nonzero")
MADE_ONCE = ("aten::zero_", "aten::empty")
MOST = 12  # operators and modules of a report


def calls_of(records: Iterable[CallRecord], phases: Container[str] | None = None) -> list[Call]:
    """The calls of any step but the first: what an optimizer keeps is made in that one alone."""
    counted: Counter[tuple[Cost, bool, bool]] = Counter()
    for record in records:
        if _is_made_once(record) or (phases is not None and record.phase not in phases):
            continue
        known = cost(record.operator, record.inputs, record.outputs)
        counted[known, record.judgement.verdict in ON_CPU, record.operator in READS] += record.calls
    return [Call(known, number, on_cpu, reads) for (known, on_cpu, reads), number in counted.items()]


def time_of(trace: Trace, options: RunOptions, info: WorkloadInfo) -> TimePrediction | None:
    """The section of the report; None where no chip was asked about, or nothing would be computed."""
    if options.chip is None or trace.table.backend.device != "mps" or trace.failure is not None:
        return None
    machine, release = machine_named(options.chip), trace.table.release
    records = [*trace.recorder.calls()]
    found = estimate(calls_of(records), machine.chip, machine.gpu_cores, release)
    if found is None:
        return None
    section = section_of(found, machine.chip, machine.gpu_cores, options, info)
    where = _where(records, machine.chip, found.gpu_cores[-1], release)
    return section.model_copy(update=where)


def section_of(
    found: Estimate, chip: Chip, gpu_cores: int | None, options: RunOptions, info: WorkloadInfo
) -> TimePrediction:
    tokens = info.seq_len and info.seq_len * (info.batch_size or 1)
    if info.phase == "generate":
        tokens = options.new_tokens * (info.batch_size or 1)
    whole = sum(found.by_class.values()) or 1.0
    return TimePrediction(
        chip=chip.name,
        gpu_cores=gpu_cores,
        step_ms=_digits(found.step_ms),
        bound_by=found.bound_by,
        samples_per_s=_rate(found.step_ms, info.batch_size),
        tokens_per_s=_rate(found.step_ms, tokens),
        launch_ms=round(found.launch_ms, 3),
        by_class=[
            ClassTime(kind=kind, ms=round(taken, 3), share=round(taken / whole, 4))
            for kind, taken in found.by_class.items()
        ],
        why_wide=found.why_wide or None,
    )


def _where(records: Iterable[CallRecord], chip: Chip, cores: int, release: str) -> dict[str, dict[str, float]]:
    """The GPU's milliseconds by operator and by module, those that take most."""
    operators: dict[str, float] = defaultdict(float)
    modules: dict[str, float] = defaultdict(float)
    known: dict[tuple[Cost, bool], float] = {}
    for record in records:
        one = cost(record.operator, record.inputs, record.outputs)
        if one.kind == HOST or _is_made_once(record):
            continue
        key = one, record.judgement.verdict in ON_CPU
        if key not in known:
            known[key] = likely_ms(*key, chip, cores, release)
        operators[record.operator] += known[key] * record.calls
        modules[record.origin.module or ""] += known[key] * record.calls
    return {"by_operator": _most(operators), "by_module": _most(modules)}


def _is_made_once(record: CallRecord) -> bool:
    return record.phase == "optimizer" and record.operator.startswith(MADE_ONCE)


def _most(taken: dict[str, float]) -> dict[str, float]:
    return {name: round(ms, 3) for name, ms in sorted(taken.items(), key=lambda one: -one[1])[:MOST]}


def _digits(values: Range) -> list[float]:
    return [float(f"{value:.3g}") for value in (values.low, values.likely, values.high)]


def _rate(step_ms: Range, number: int | None) -> list[float] | None:
    """Low, likely and high, of ``number`` a step."""
    if not number:
        return None
    ends: Sequence[float] = (step_ms.high, step_ms.likely, step_ms.low)
    return [float(f"{number / one * 1e3:.3g}") for one in ends]
