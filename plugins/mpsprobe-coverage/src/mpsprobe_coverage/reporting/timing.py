"""How long a step was predicted to take on the chip that was asked about, and what would make it faster."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from mpsprobe.protocols import RunOptions
from mpsprobe.schemas import ClassTime, MemoryPrediction, OperatorTimeShare, TimePrediction, WorkloadInfo
from mpsprobe_coverage.knowledge.chips.store import Chip, machine_named
from mpsprobe_coverage.knowledge.times.costs import HOST, Cost, cost
from mpsprobe_coverage.knowledge.times.model import CPU, Estimate, Range, estimate, one_ms
from mpsprobe_coverage.recording.recorder import CallRecord
from mpsprobe_coverage.recording.trace import Trace
from mpsprobe_coverage.reporting.faster import faster
from mpsprobe_coverage.reporting.works import calls_of, is_made_once, is_on_cpu, works_of

MOST = 12  # modules of a report


def time_of(
    trace: Trace, options: RunOptions, info: WorkloadInfo, memory: MemoryPrediction | None
) -> TimePrediction | None:
    """The section of the report; None where no chip was asked about, or nothing would be computed."""
    if options.chip is None or trace.table.backend.device != "mps" or trace.failure is not None:
        return None
    machine, release = machine_named(options.chip), trace.table.release
    records = [*trace.recorder.calls()]
    works = works_of(records)
    estimated = estimate(calls_of(works), machine.chip, machine.gpu_cores, release)
    if estimated is None:
        return None
    operators, modules = _where(records, machine.chip, estimated.gpu_cores[-1], release)
    section = section_of(estimated, machine.chip, machine.gpu_cores, options, info)
    changes = faster(estimated, works, trace, machine, info, memory)
    return section.model_copy(update={"by_operator": operators, "by_module": modules, "faster": changes})


def section_of(
    estimated: Estimate, chip: Chip, gpu_cores: int | None, options: RunOptions, info: WorkloadInfo
) -> TimePrediction:
    tokens = info.seq_len and info.seq_len * (info.batch_size or 1)
    if info.phase == "generate":
        tokens = options.new_tokens * (info.batch_size or 1)
    whole = sum(estimated.by_class.values()) or 1.0
    return TimePrediction(
        chip=chip.name,
        gpu_cores=gpu_cores,
        step_ms=estimated.step_ms.digits(),
        bound_by=estimated.bound_by,
        samples_per_s=_rate(estimated.step_ms, info.batch_size),
        tokens_per_s=_rate(estimated.step_ms, tokens),
        launch_ms=round(estimated.launch_ms, 3),
        by_class=[
            ClassTime(kind=kind, ms=round(taken, 3), share=round(taken / whole, 4))
            for kind, taken in estimated.by_class.items()
        ],
        why_wide=estimated.why_wide or None,
    )


def _where(
    records: Iterable[CallRecord], chip: Chip, cores: int, release: str
) -> tuple[list[OperatorTimeShare], dict[str, float]]:
    """The milliseconds of each operator, and of the modules that take most; the most first."""
    kinds: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    alone: dict[str, float] = defaultdict(float)
    calls: Counter[str] = Counter()
    modules: dict[str, float] = defaultdict(float)
    known: dict[tuple[Cost, bool], tuple[float, float]] = {}
    for record in records:
        work, name = cost(record.operator, record.inputs, record.outputs), record.operator
        if work.kind == HOST or is_made_once(record):
            continue
        key = work, is_on_cpu(record)
        if key not in known:
            known[key] = one_ms(*key, chip, cores, release)
        likely, waited_for = known[key]
        kinds[name][CPU if key[1] else work.kind] += likely * record.calls
        alone[name] += waited_for * record.calls
        calls[name] += record.calls
        modules[record.origin.module or ""] += likely * record.calls
    shares = [
        OperatorTimeShare(
            operator=name,
            kind=max(of_kind, key=lambda kind: of_kind[kind]),
            calls=calls[name],
            ms=round(sum(of_kind.values()), 3),
            alone_ms=round(alone[name], 3),
        )
        for name, of_kind in kinds.items()
    ]
    most = sorted(modules.items(), key=lambda share: -share[1])[:MOST]
    return sorted(shares, key=lambda share: -share.ms), {name: round(ms, 3) for name, ms in most}


def _rate(step_ms: Range, number: int | None) -> list[float] | None:
    """Low, likely and high, of ``number`` a step."""
    if not number:
        return None
    ends: Sequence[float] = (step_ms.high, step_ms.likely, step_ms.low)
    return [float(f"{number / end * 1e3:.3g}") for end in ends]
