"""How many MPSGraphs a workload compiles over many lengths: a prediction, see ``docs/explanation/growth.md``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from operator import add
from typing import NamedTuple

from mpsprobe.errors import MpsprobeError, UsageError, WorkloadError
from mpsprobe.protocols import Progress, RunOptions, Workload
from mpsprobe.schemas import GraphCount, GraphGrowth
from mpsprobe_coverage.knowledge.kernels.table import KernelTable
from mpsprobe_coverage.knowledge.memory.lifetimes import of_step
from mpsprobe_coverage.knowledge.memory.timeline import changes
from mpsprobe_coverage.reporting.fitting import Needs
from mpsprobe_coverage.reporting.graphs import Key, Keys, compiles, keys_of
from mpsprobe_coverage.scanning import images
from mpsprobe_coverage.scanning.generation import PREFILL
from mpsprobe_coverage.scanning.many_sizes import FEW_LENGTHS, reserved_growth
from mpsprobe_coverage.scanning.tracing import Tracer, built
from mpsprobe_coverage.scanning.vary import SIZE, Vary, with_value

SHORT = 8  # tokens of the shorter of two generations that are compared
STATIC = "static"  # a cache of one size, as --cache has it
NONE = GraphCount(least=0, most=0)


class _Graphs(NamedTuple):
    """Of a run: of its first pass (of a generation that over the prompt, else all), and of the whole."""

    first: Keys
    whole: Keys
    needs: Needs


def growth(workload: Workload, options: RunOptions, table: KernelTable, vary: Vary, progress: Progress) -> GraphGrowth:
    """How many graphs ``workload`` compiles over all values of ``vary``, from a few that are run.

    Raises:
        MpsprobeError: the release, the phase or the workload does not fit, or a run raises.
    """
    if compiles("", table) is None:
        raise UsageError(f"which kernels compile graphs was not read from torch {table.release}", "Leave --vary out.")
    generates = options.phase == "generate"
    if vary.what == "new-tokens" and not generates:
        raise UsageError(
            f"--vary new-tokens does not go with --phase {options.phase}",
            "That varies in seq-len, batch-size or size; --phase generate makes tokens.",
        )

    def graphs(value: int, options: RunOptions = options) -> _Graphs:
        progress.advance(f"running it with {vary.what} {value}")
        varied = with_value(options, vary.what, value)
        run, _ = built(workload, varied, table, value if vary.what == SIZE else None)
        if vary.what == SIZE and images.side(run) is None:
            raise UsageError(f"'{workload.name}' has no image to vary", "Vary seq-len or batch-size.")
        trace = Tracer(run, varied).settled(table)
        if trace.failure is not None:
            raise WorkloadError(f"with {vary.what} {value}: {trace.failure.error}: {trace.failure.message}")
        records = [*trace.recorder.calls()]
        first = [record for record in records if not generates or record.phase == PREFILL]
        needs = Needs(table.release, changes(of_step(trace.events)))
        return _Graphs(keys_of(first, table), keys_of(records, table), needs)

    if vary.what == "new-tokens":
        static = None
        if options.cache != STATIC:
            with suppress(MpsprobeError):  # some models have no such cache
                static = _of_tokens(vary, graphs, replace(options, cache=STATIC)).total
        return _of_tokens(vary, graphs, options, static)
    steps = options.new_tokens - 1 if generates and vary.what == "seq-len" else 0  # the prompt gives the first token
    return _of_lengths(vary, graphs, steps, table.release, options)


def _of_lengths(
    vary: Vary, graphs: Callable[[int], _Graphs], steps: int, release: str, options: RunOptions
) -> GraphGrowth:
    """``steps``: of a generation, whose step after a prompt has the shapes of the one before after a longer prompt."""
    tried = vary.tried[::-1]  # the last may be too long
    runs = [graphs(value) for value in tried]
    needs = {value: run.needs for value, run in zip(tried, runs, strict=True)}
    fixed, each = _shared([run.whole for run in runs])
    again = NONE  # what a length compiles that the next one does not have to
    if steps:
        _, first = _shared([run.first for run in runs])
        later = _both(lambda whole, first: -(-max(0, whole - first) // steps), each, first)
        again = _both(lambda later: (steps - 1) * later, later)
        each = _both(add, first, later)
    step = 1
    while vary.last // step - (vary.first - 1) // step > FEW_LENGTHS:
        step *= 2
    rounded = -(-vary.last // step) - -(-vary.first // step) + 1
    lengths = vary.last - vary.first + 1
    return GraphGrowth(
        varied=vary.what,
        first=vary.first,
        last=vary.last,
        tried=tried[::-1],
        fixed=fixed,
        each=each,
        total=_both(lambda fixed, each, again: fixed + lengths * each + again, fixed, each, again),
        padded_to=step,
        padded=_both(lambda fixed, each, again: fixed + rounded * (each + again), fixed, each, again),
        memory=None if vary.what == SIZE else reserved_growth(vary, needs, release, step, options),
    )


def _of_tokens(
    vary: Vary, graphs: Callable[[int, RunOptions], _Graphs], options: RunOptions, static: GraphCount | None = None
) -> GraphGrowth:
    """From two generations: the longer one compiles as many more as its further steps need.

    They need not have one graph in common: a static cache is as long as the generation.
    """
    shorter, longer = (graphs(tokens, options).whole.number for tokens in (SHORT, 2 * SHORT))
    each = _both(lambda shorter, longer: -(-max(0, longer - shorter) // SHORT), shorter, longer)
    fixed = _both(lambda shorter, each: max(0, shorter - SHORT * each), shorter, each)
    return GraphGrowth(
        varied=vary.what,
        first=vary.first,
        last=vary.last,
        tried=[SHORT, 2 * SHORT],
        fixed=fixed,
        each=each,
        total=_both(lambda fixed, each: fixed + vary.last * each, fixed, each),
        static=static,
    )


def _both(calculation: Callable[..., int], *counts: GraphCount) -> GraphCount:
    """What is calculated of the least, and of the most."""
    return GraphCount(
        least=calculation(*(count.least for count in counts)), most=calculation(*(count.most for count in counts))
    )


def _shared(runs: Sequence[Keys]) -> tuple[GraphCount, GraphCount]:
    """How many graphs several lengths share, and how many one has alone."""
    certain, possible = _split([run.certain for run in runs]), _split([run.possible for run in runs])
    fixed = GraphCount(least=certain[0], most=certain[0] + possible[0])
    return fixed, GraphCount(least=certain[1], most=certain[2] + possible[2])


def _split(runs: Sequence[frozenset[Key]]) -> tuple[int, int, int]:
    """How many keys several lengths share, and the fewest and the most that one has alone."""
    if len(runs) == 1:
        return len(runs[0]), 0, 0
    times = Counter(key for keys in runs for key in keys)
    alone = [sum(times[key] == 1 for key in keys) for keys in runs]
    return sum(number > 1 for number in times.values()), min(alone), max(alone)
