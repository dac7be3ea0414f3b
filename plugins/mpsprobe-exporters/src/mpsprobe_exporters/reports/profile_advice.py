"""What to do about a profile: each recommendation with the figures of the report that it follows from.

Nothing here is known of a model or a machine: every sentence is derived from what was measured, and a threshold only
decides whether it is worth a reader's time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from mpsprobe_exporters import backends
from mpsprobe_exporters.plain_text import one_line, plural
from mpsprobe_exporters.reports.configurations import but_for, device_memory, rate, twin
from mpsprobe_exporters.reports.configurations import name as configuration
from mpsprobe_exporters.reports.trace_summary import Division, divide
from mpsprobe_exporters.units import BEYOND, amount, byte_size, duration, fraction, number, percent

if TYPE_CHECKING:
    from mpsprobe.schemas import DurationStatistics, FallbackCost, ProfileCell, ProfileReport

SMALL = 0.01  # a smaller part of the step is within the noise of most machines
NOISY = 0.1  # from this spread on a reader should look at the machine before the figure
WIDE = 0.1  # a wider interval hides the differences that people look for
OUTLIERS = 0.05  # one in twenty is what Tukey's fences let through of heavy tails; more are a pattern
GROWTH = 0.05  # a larger batch that gives less than this more has nothing left to gain
IDLE = 0.5  # then the device waits longer than it works: a busier device would change more than a faster kernel
COPIES = 0.1  # copies hide behind kernels where they may; a tenth of the step that no kernel covers is worth a look
# What the host needs to start a kernel is some 5 to 10 µs (CUDA and Metal alike); shorter kernels cannot keep a queue
# full, and fewer than 100 of them in a step are no concern of its time.
TINY_NS, MANY = 10_000, 100
OPTIMIZER = 0.25  # AdamW reads and writes each parameter a few times, whatever the batch: a quarter is much
FIRST_STEPS, FIRST_NS = 20, 1_000_000_000  # the first call is worth a word where it costs more than both
# Beyond it, the systems of unified memory begin to compress and to swap (recommended maxima are about 70 to 80 %).
FULL = 0.8
STOPPED = "out of memory"
HALF = ("float16", "bfloat16")


class Advice(NamedTuple):
    kind: str  # groups what is alike
    where: str  # the configuration; empty where there is only one
    finding: str  # what was seen with its figures, as a sentence
    remedy: str  # what to do, as a sentence
    share: float | None = None  # of the step that it is about, where that is known
    also: tuple[str, ...] = ()  # the other configurations that need the same


def recommendations(report: ProfileReport, divisions: Sequence[Division | None]) -> list[Advice]:
    """What follows from the report: first what did not run, then what costs most; what cannot be weighed last.

    What several configurations need is there once, with the figures of the one that it matters to most.
    ``divisions`` is ``divided(report)``: of a long trace it takes seconds.
    """
    pairs = zip(report.cells, divisions, strict=True)
    finding = [advice for cell, division in pairs for advice in _of_cell(report, cell, division)]
    finding += _sweeps(report)
    if len(report.cells) < 2:
        finding = [advice._replace(where="") for advice in finding]
    alike: dict[tuple[str, str], list[Advice]] = {}
    for one in sorted(finding, key=lambda one: (one.kind != STOPPED, one.share is None, -(one.share or 0))):
        alike.setdefault((one.kind, one.remedy), []).append(one)
    return [first._replace(also=tuple(advice.where for advice in others)) for first, *others in alike.values()]


def divided(report: ProfileReport) -> list[Division | None]:
    return [None if cell.trace is None else divide(cell.trace) for cell in report.cells]


def is_slow_mode(cell: ProfileCell) -> bool:
    """Whether its operators were timed one by one, each synchronised: then idle time is the probe's own."""
    return any(operator.source == "slow mode" for operator in cell.operators)


def _of_cell(report: ProfileReport, cell: ProfileCell, division: Division | None) -> Iterator[Advice]:
    where = configuration(report, cell)
    device = () if division is None or is_slow_mode(cell) else _device_time(cell, division)
    every = (*_fallbacks(report, cell), *_slow(cell), *device, *_steps(cell), *_whole(report, cell))
    yield from (Advice(kind, where, finding, remedy, share) for kind, finding, remedy, share in every)


Finding = tuple[str, str, str, float | None]


def _fallbacks(report: ProfileReport, cell: ProfileCell) -> Iterator[Finding]:
    backend = backends.profiled(report)
    for fallback in sorted(cell.fallbacks, key=lambda one: -(one.duration_ns or 0)):
        share = None if cell.step is None else fraction(fallback.duration_ns, cell.step.median_ns)
        share = share and min(1.0, share)
        if share is None or share >= SMALL:
            yield "fallback", _fallback_cost(fallback, share, backend), _fallback_cure(fallback, backend), share


def _fallback_cost(fallback: FallbackCost, share: float | None, backend: str) -> str:
    calls = plural(fallback.calls, "call")
    if fallback.method == "predicted":
        moved = f" and copies {byte_size(fallback.bytes)}" if fallback.bytes else ""
        return (
            f"It leaves {backend} ({one_line(fallback.verdict, 40)}, {calls} a step){moved}; its time was not measured."
        )
    moved = f" and copied {byte_size(fallback.bytes)}" if fallback.bytes else ""
    spent = "" if fallback.duration_ns is None else f" for {duration(fallback.duration_ns)} of each step"
    part = "" if share is None else f" ({percent(share)})"
    return f"It ran on the CPU{spent}{part}{moved}."


def _fallback_cure(fallback: FallbackCost, backend: str) -> str:
    name = one_line(fallback.operator, 80)
    if fallback.native_since:
        software, kernel = ("torch", "an MPS kernel") if backend == "MPS" else (backend, "a kernel")
        return f"Upgrade to {software} {one_line(fallback.native_since, 40)} or newer, which has {kernel} for {name}."
    if backend != "MPS":  # what is placed elsewhere may have a kernel: 'mpsprobe coverage' says why
        return f"Replace {name} or move it out of the step: no release of {backend} runs it on the GPU."
    return f"Replace {name} or move it out of the step: no release has an MPS kernel for it."


def _slow(cell: ProfileCell) -> Iterator[Finding]:
    """Operators that take much longer than the chip was predicted to take."""
    for advice in cell.chip.slow if cell.chip is not None else ():
        name, took = one_line(advice.operator, 80), duration(advice.measured_ms * 1e6)
        finding = (
            f"{name} takes {took} of a step, and {duration(advice.predicted_ms * 1e6)} were predicted for the chip."
        )
        remedy = (
            one_line(advice.remedy, 300) if advice.remedy else f"Look at sizes and strides of {name}: none is known."
        )
        yield "slow operator", finding, remedy, min(1.0, advice.share)


def _device_time(cell: ProfileCell, division: Division) -> Iterator[Finding]:
    yield from _busy(cell, division) if division.kernels else _host_only(division)
    copied = division.copy_ns / division.total_ns
    if copied >= COPIES:
        finding = f"For {percent(copied)} of the profiled steps tensors are copied while no kernel runs."
        yield "copies", finding, "Keep tensors on the device, and load the next batch while this one runs.", copied
    if division.kernels and division.kernels >= MANY * division.steps:
        mean = division.kernel_ns / division.kernels
        if mean < TINY_NS:
            kernels = number(division.kernels // division.steps)
            finding = f"{kernels} kernels a step take {duration(mean)} on average; to start one takes as long."
            yield "tiny kernels", finding, "Fuse small kernels with --compile.", None


def _busy(cell: ProfileCell, division: Division) -> Iterator[Finding]:
    """The device's work as a part of the timed step where there is one: under a profiler the host is slower."""
    worked = (division.kernel_ns + division.copy_ns) / division.steps
    profiled = division.total_ns / division.steps
    step = min(profiled, cell.step.median_ns) if cell.step is not None and cell.step.median_ns > 0 else profiled
    if worked < IDLE * step:
        finding = f"The device works for {duration(worked)} of a step of {duration(step)} ({percent(worked / step)})"
        remedy = "Give the device more at once: a larger batch, fewer small operators, or --compile."
        yield "host-bound", f"{finding} and waits for the host in the rest.", remedy, 1 - worked / step


def _host_only(division: Division) -> Iterator[Finding]:
    outside = division.other_ns / division.total_ns
    if outside > IDLE:
        finding = f"Only {percent(1 - outside)} of the profiled steps are inside operators; the rest is Python."
        remedy = "Spend less time in Python: a larger batch, fewer small operators, or --compile."
        yield "host-bound", finding, remedy, outside


def _steps(cell: ProfileCell) -> Iterator[Finding]:
    step = cell.step
    if step is None or step.median_ns <= 0:
        return
    if step.spread > NOISY:
        finding = f"Steps vary by {percent(step.spread)} of their median."
        yield "noise", finding, "Close other programs, let the machine cool, and measure again.", None
    elif (step.high_ns - step.low_ns) / step.median_ns > WIDE:
        finding = f"The median is known only to lie between {duration(step.low_ns)} and {duration(step.high_ns)}."
        yield "noise", finding, f"Time more than {plural(step.count, 'step')}: --steps, --processes.", None
    if has_many_outliers(step):
        longest = duration(step.maximum_ns)
        finding = f"{number(step.outliers)} of {plural(step.count, 'step')} are outliers, the longest takes {longest}."
        yield "outliers", finding, "Look at when they come: a pattern is memory being collected, or heat.", None
    if cell.warmup is not None and not cell.warmup.stable:
        finding = f"The steps had not settled after {plural(len(cell.warmup.durations_ns), 'warm-up step')}."
        yield "warm-up", finding, "Warm up longer (--warmup), or look for shapes that change.", None
    first = min(max(cell.first_call_ns, default=0), BEYOND)
    if first > FIRST_NS and first > FIRST_STEPS * step.median_ns:
        steps = int(min(first / step.median_ns, BEYOND))
        finding = f"The first call takes {duration(first)}, as long as {number(steps)} steps."
        yield "first call", finding, "Make one call before the first user waits, and keep the process.", None
    optimizer = cell.phases.get("optimizer")
    if optimizer is not None and optimizer.median_ns >= OPTIMIZER * step.median_ns:
        share = min(1.0, optimizer.median_ns / step.median_ns)
        finding = f"The optimizer takes {duration(optimizer.median_ns)}, {percent(share)} of a step."
        remedy = "Let the optimizer run less often for the same samples: a larger batch, or --grad-accum."
        yield "optimizer", finding, remedy, share


def has_many_outliers(step: DurationStatistics) -> bool:
    return step.outliers > OUTLIERS * step.count and step.outliers > 1


def _whole(report: ProfileReport, cell: ProfileCell) -> Iterator[Finding]:
    limit, use = device_memory(report, cell), cell.memory
    peak = None if use is None else use.peak_reserved_bytes or use.peak_allocated_bytes
    if limit and peak and peak > FULL * limit:
        finding = f"{byte_size(peak)} of the device's {byte_size(limit)} were in use at the peak."
        remedy = "Use a smaller batch or half precision: near the limit steps fail, or the system swaps."
        yield "memory", finding, remedy, None
    base = twin(report, cell, report.plan.baseline) if report.plan.baseline not in (None, cell.device) else None
    if base is not None and base.step is not None and cell.step is not None and base.step.high_ns < cell.step.low_ns:
        times = amount(cell.step.median_ns / base.step.median_ns) if base.step.median_ns > 0 else "many"
        finding = f"A step takes {times} times as long as on {one_line(base.device, 20)}."
        yield "slower", finding, "Run it there, or give the device more work at once.", None
    if cell.failure is not None and "memory" in cell.failure.error.lower() + cell.failure.message.lower():
        alike = (one for one in report.cells if but_for("batch_size", one) == but_for("batch_size", cell))
        fits = [cell.batch_size for cell in alike if cell.step and cell.batch_size]
        largest = f" (batch {number(max(fits))} fits)" if fits else ""
        remedy = f"Use a smaller batch{largest}, --dtype float16 or bfloat16, or --grad-accum."
        yield STOPPED, "It did not fit into memory.", remedy, None


def _sweeps(report: ProfileReport) -> Iterator[Advice]:
    """What only several configurations together show."""
    groups: dict[tuple[object, ...], list[ProfileCell]] = {}
    for cell in report.cells:
        if cell.step is not None:
            groups.setdefault(but_for("batch_size", cell), []).append(cell)
    for cells in groups.values():
        yield from _saturated(report, cells)
    yield from _half(report, [cells[0] for cells in groups.values()])


def _saturated(report: ProfileReport, cells: list[ProfileCell]) -> Iterator[Advice]:
    known = ((cell.batch_size, rate(cell, "samples"), cell) for cell in cells)
    rates = [(batch, samples, one) for batch, samples, one in known if batch and samples]
    for (batch, before, _), (larger, more, cell) in pairwise(sorted(rates, key=lambda one: one[0])):
        if larger > batch and more < before * (1 + GROWTH):
            change = f"{more / before - 1:+.0%}"
            finding = f"Batch {number(larger)} gives {change} samples/s over batch {number(batch)}."
            remedy = f"Stay at batch {number(batch)}: a larger one only takes memory."
            yield Advice("saturated", configuration(report, cell), finding, remedy)
            return


def _half(report: ProfileReport, cells: Iterable[ProfileCell]) -> Iterator[Advice]:
    """Where a GPU runs float32 and nobody has tried half of it."""
    tried = {cell.device for cell in report.cells if cell.dtype in HALF or cell.autocast}
    for device in dict.fromkeys(cell.device for cell in cells if cell.dtype == "float32" and cell.device != "cpu"):
        if device not in tried:
            finding = f"Everything on {one_line(device, 20)} ran in float32; half of the bytes is often faster there."
            remedy = "Measure half precision too: --dtype float16, bfloat16 or --autocast."
            yield Advice("precision", "", finding, remedy)
