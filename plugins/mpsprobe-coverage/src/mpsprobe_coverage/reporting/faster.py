"""What would make a step faster: the recorded calls as they would be under a change, by the model of time.

Nothing is run again. Of another dtype, another release and contiguous weights the calls are the same, with other
tensors or other kernels. Of a larger batch they are the same too; the outermost dimension in memory grows of all that
is no weight. Attention that is written out is seen by its softmax, and by the two products that make and use what that
gets. Each change is looked at alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

import torch

from mpsprobe.schemas import Faster, MemoryPrediction, TimePrediction, WorkloadInfo
from mpsprobe_coverage.knowledge.calls.call import Call as Called
from mpsprobe_coverage.knowledge.calls.spec import (
    Specs,
    TensorSpec,
    dtype_name,
    interned,
    is_channels_last,
    is_contiguous,
    spec_of,
)
from mpsprobe_coverage.knowledge.chips.store import Machine
from mpsprobe_coverage.knowledge.times.costs import CHANNELS_LAST
from mpsprobe_coverage.knowledge.times.model import Call, Estimate, estimate, slow_before
from mpsprobe_coverage.recording.recorder import CallRecord
from mpsprobe_coverage.recording.trace import Trace
from mpsprobe_coverage.reporting.works import Work, Works, calls_of, is_on_cpu, works_of

LEAST = 1.05  # a smaller gain is not shown
FLOATS = (torch.float32, torch.float16, torch.bfloat16)
FUSED = "aten::_scaled_dot_product_attention_math_for_mps"
DOUBLINGS = 6
Shape = tuple[int, ...]


class Change(NamedTuple):
    kind: Any
    what: str
    calls: list[Call]
    samples: int = 1  # how many times as many in a step
    release: str | None = None  # another one


def faster(
    now: Estimate,
    works: Works,
    trace: Trace,
    machine: Machine,
    info: WorkloadInfo,
    memory: MemoryPrediction | None,
) -> list[Faster]:
    """The changes that gain 5 % or more, the most first."""
    records, release, likely = [*trace.recorder.calls()], trace.table.release, now.step_ms.likely

    def gain(change: Change) -> tuple[float, Estimate] | None:
        then = estimate(change.calls, machine.chip, machine.gpu_cores, change.release or release)
        return None if then is None else (likely / then.step_ms.likely * change.samples, then)

    best: dict[str, Faster] = {}
    changes = (
        _dtypes(works, trace, machine, info),
        _larger(works, trace, info, memory, gain),
        _contiguous(works),
        _attention(works, records, trace, info),
        _releases(records, trace, gain),
    )
    for change in (change for some in changes for change in some):
        change_found = gain(change)
        if (
            change_found is not None
            and change_found[0] >= LEAST
            and (change.kind not in best or change_found[0] > best[change.kind].gain)
        ):
            step_ms = change_found[1].step_ms.digits()
            best[change.kind] = Faster(
                kind=change.kind, change=change.what, gain=round(change_found[0], 2), step_ms=step_ms
            )
    return sorted(best.values(), key=lambda one: -one.gain)


def with_change(time: TimePrediction, kind: Any, change: str, step_ms: list[float]) -> TimePrediction:
    """``time`` with one more change, of which the time was found out elsewhere."""
    gain = time.step_ms[1] / step_ms[1]
    more = [Faster(kind=kind, change=change, gain=round(gain, 2), step_ms=step_ms)] if gain >= LEAST else []
    return time.model_copy(update={"faster": sorted([*time.faster, *more], key=lambda one: -one.gain)})


Gain = Callable[[Change], tuple[float, Estimate] | None]


def changed(works: Works, of: Callable[[TensorSpec], TensorSpec]) -> Works:
    found: Works = Works()
    for work, number in works.items():
        inputs, outputs = (tuple(map(of, part)) for part in (work.inputs, work.outputs))
        found[work._replace(inputs=inputs, outputs=outputs)] += number
    return found


def _dtypes(works: Works, trace: Trace, machine: Machine, info: WorkloadInfo) -> Iterator[Change]:
    """In half precision, where the chip has it in hardware and every kernel takes it; bfloat16 alone is trained in."""
    for dtype in (torch.float16, torch.bfloat16):
        name = dtype_name(dtype)
        in_hardware = machine.chip.bf16 == "hardware" if dtype is torch.bfloat16 else info.phase != "training"
        if info.autocast is None and info.dtype not in (name, None) and in_hardware and _is_taken(trace, dtype):
            yield Change("dtype", name, calls_of(changed(works, partial(in_dtype, dtype=dtype))))


def in_dtype(spec: TensorSpec, dtype: torch.dtype) -> TensorSpec:
    is_other = spec.dtype in FLOATS and spec.dtype is not dtype and spec.layout is torch.strided
    return interned(spec.shape, spec.stride, dtype) if is_other else spec


def _is_taken(trace: Trace, dtype: torch.dtype) -> bool:
    """Whether all that was called has kernels that take tensors of ``dtype`` in place of those that they got."""
    if trace.chain is None or trace.chain.table is not trace.table or any(map(is_on_cpu, trace.recorder.calls())):
        return False

    def other(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return in_dtype(spec_of(value), dtype).empty()
        if isinstance(value, (list, tuple)):
            return [*map(other, value)]
        return dtype if isinstance(value, torch.dtype) and value in FLOATS else value

    for (func, key), calls in trace.calls.items():
        judges = trace.chain.judges_of(func, key)
        for call in calls:
            args, kwargs = tuple(map(other, call.args)), {name: other(value) for name, value in call.kwargs.items()}
            inputs, outputs = (tuple(in_dtype(spec, dtype) for spec in part) for part in (call.inputs, call.outputs))
            then = Called(func, args, kwargs, inputs, outputs, call.generator, call.cpu_generator)
            if judges.judge(then).verdict not in ("native", "composite"):
                return False
    return True


def _larger(
    works: Works, trace: Trace, info: WorkloadInfo, memory: MemoryPrediction | None, gain: Gain
) -> Iterator[Change]:
    """Twice the batch for as long as that gains something and fits, taking all memory to grow with it."""
    batch, fits = info.batch_size, [] if memory is None else [*memory.fits, *([memory.fit] if memory.fit else [])]
    room = max((fit.low.recommended_bytes for fit in fits), default=0)
    best, before = None, 1.0
    for times in (2**doubling for doubling in range(1, DOUBLINGS + 1)):
        if not batch or memory is None or memory.reserved_bytes * times > room:
            break
        change = Change("batch", f"batch {batch * times}", calls_of(of_batch(works, trace, batch, times)), times)
        gained = gain(change)
        if gained is None or gained[0] < before * LEAST:
            break
        best, before = change, gained[0]
    if best is not None:
        yield best


def of_batch(works: Works, trace: Trace, batch: int, times: int) -> Works:
    """The calls of a batch of ``times`` as many as ``batch``."""
    # A weight that begins with 1, of positions for example, has the shape of an activation of batch 1
    own = [shape for shape in trace.weights if shape[:1] != (1,)]
    weights = frozenset((*own, *(shape[::-1] for shape in own)))
    return changed(works, partial(_grown, times=times, batch=batch, weights=weights))


def _grown(spec: TensorSpec, times: int, batch: int, weights: frozenset[Shape]) -> TensorSpec:
    shape, stride = spec.shape, spec.stride
    if not shape or shape in weights or spec.layout is not torch.strided:
        return spec
    outermost = 0 if not stride[0] else max(range(len(shape)), key=lambda dim: (stride[dim], -dim))
    if shape[outermost] % batch:
        return spec
    grown = (*shape[:outermost], shape[outermost] * times, *shape[outermost + 1 :])
    return interned(grown, stride, spec.dtype)


def _packed(spec: TensorSpec) -> TensorSpec:
    return interned(spec.shape, torch.empty(spec.shape, device="meta").stride(), spec.dtype)


def _contiguous(works: Works) -> Iterator[Change]:
    """Weights of ``linear`` whose rows follow each other; no channels last where convolutions are trained."""
    strided = [work for work in works if work.operator == "aten::linear" and not is_contiguous(work.inputs[1])]
    if strided:
        found = works.copy()
        for work in strided:
            x, weight, *bias = work.inputs
            found[work._replace(inputs=(x, _packed(weight), *bias))] += found.pop(work)
        yield Change("layout", "contiguous weights", calls_of(found))
    if any(call.cost.kind.endswith(CHANNELS_LAST) for call in calls_of(works)):
        found = changed(works, lambda spec: _packed(spec) if is_channels_last(spec) else spec)
        yield Change("layout", "contiguous tensors in place of channels last", calls_of(found))


def _attention(works: Works, records: list[CallRecord], trace: Trace, info: WorkloadInfo) -> Iterator[Change]:
    """``scaled_dot_product_attention`` in place of products and a softmax; in training MPS makes it of these."""
    if info.phase == "training" or trace.table.verdict(FUSED) != "native":
        return
    modules: dict[Any, list[CallRecord]] = defaultdict(list)
    for record in records:
        modules[record.origin.module, record.phase].append(record)
    found = works.copy()
    for inside in modules.values():
        for softmax in (work for work in inside if work.operator.startswith("aten::_softmax")):
            fused = _fused(softmax, inside)
            if fused is not None:
                for record in fused[1]:
                    found[Work(record.operator, record.inputs, record.outputs, is_on_cpu(record))] -= record.calls
                found[fused[0]] += softmax.calls
    if found != works:
        yield Change("attention", "scaled_dot_product_attention", calls_of(+found))


def _fused(softmax: CallRecord, inside: Iterable[CallRecord]) -> tuple[Work, list[CallRecord]] | None:
    """The call in place of ``softmax`` and of those in its module that make, change and use its scores; those."""
    scores = softmax.outputs[0]

    def has_scores(specs: Specs) -> bool:
        return any(spec.numel == scores.numel and spec.shape[-2:] == scores.shape[-2:] for spec in specs)

    about = [record for record in inside if has_scores(record.inputs) or has_scores(record.outputs)]
    made = [work for work in about if not has_scores(work.inputs) and len(work.inputs) > 1]
    used = [work for work in about if not has_scores(work.outputs) and len(work.inputs) == 2]
    calls = [[work.calls for work in some] for some in (made, used)]
    if len(scores.shape) < 3 or calls != [[softmax.calls], [softmax.calls]]:
        return None
    query, key = made[0].inputs[-2:]
    value = next(spec for spec in used[0].inputs if not has_scores((spec,)))
    turned = interned((*key.shape[:-2], key.shape[-1], key.shape[-2]), key.stride, key.dtype)
    return Work(FUSED, (query, turned, value), used[0].outputs, on_cpu=False), about


def _releases(records: list[CallRecord], trace: Trace, gain: Gain) -> Iterator[Change]:
    """The oldest newer release that gains as much as the newest: kernels that there are then, and slow ones mended."""
    table = trace.table
    since = {record.judgement.accepted_since for record in records if is_on_cpu(record)}
    later = [
        release
        for release in table.family.releases
        if not table.at_least(release) and release in {*since, *slow_before()}
    ]
    groups = []
    for release in later:
        there = table.family.load(release)

        def on_cpu(record: CallRecord, at_least: Callable[[str], bool] = there.at_least) -> bool:
            native_since = record.judgement.accepted_since
            return is_on_cpu(record) and not (native_since and at_least(native_since))

        change = Change("release", f"torch {release}", calls_of(works_of(records, on_cpu=on_cpu)), 1, release)
        gained = gain(change)
        groups.append((gained[0] if gained else 0.0, change))
    most = max((gained for gained, _ in groups), default=0.0)
    yield from [change for gained, change in groups if gained > most / LEAST][:1]
