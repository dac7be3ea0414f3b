"""How many MPSGraphs a workload compiles over many lengths: a prediction, see ``docs/explanation/growth.md``."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

from mpsprobe.errors import MpsprobeError, UsageError, WorkloadError
from mpsprobe.protocols import Progress, RunOptions, TorchRun, Workload
from mpsprobe.schemas import GraphCount, GraphGrowth
from mpsprobe_coverage.devices.virtual import VirtualDevice
from mpsprobe_coverage.knowledge.kernels.table import KernelTable
from mpsprobe_coverage.reporting.graphs import Key, Keys, compiles, keys_of
from mpsprobe_coverage.scanning import images
from mpsprobe_coverage.scanning.generation import PREFILL
from mpsprobe_coverage.scanning.scan import settled
from mpsprobe_coverage.scanning.vary import SIZE, Vary

FEW_LENGTHS = 8  # that padding should leave
SHORT = 8  # tokens of the shorter of two generations that are compared
STATIC = "static"  # a cache of one size, as --cache has it


def growth(workload: Workload, options: RunOptions, table: KernelTable, vary: Vary, progress: Progress) -> GraphGrowth:
    """How many graphs ``workload`` compiles over all values of ``vary``, from a few that are run.

    Raises:
        UsageError: the release, the phase or the workload does not fit.
        WorkloadError: it cannot be built, or raises with one of the values.
    """
    if compiles("", table) is None:
        raise UsageError(f"which kernels compile graphs was not read from torch {table.release}", "Leave --vary out.")
    generates = options.phase == "generate"
    if vary.what == "new-tokens" and not generates:
        raise UsageError(
            f"--vary new-tokens does not go with --phase {options.phase}",
            "That varies in seq-len, batch-size or size; --phase generate makes tokens.",
        )

    def run(value: int, options: RunOptions = options) -> _Run:
        progress.advance(f"running it with {vary.what} {value}")
        varied = vary.with_value(options, value)
        device = VirtualDevice(table, keep_weights=options.weights)
        with device.construction():
            built = workload.build(varied)
            if not isinstance(built, TorchRun):
                raise WorkloadError(f"'{workload.name}' did not build a TorchRun, but {type(built).__name__}")
            if vary.what == SIZE:
                if images.side(built) is None:
                    raise UsageError(f"'{workload.name}' has no image to vary", "Vary seq-len or batch-size.")
                images.resize(built, value)
        _, found = settled(built, varied, table, {}, device)
        if found.failure is not None:
            raise WorkloadError(f"with {vary.what} {value}: {found.failure.error}: {found.failure.message}")
        records = list(found.recorder.calls())
        first = keys_of((one for one in records if not generates or one.phase == PREFILL), table)
        return _Run(first, keys_of(records, table))

    if vary.what == "new-tokens":
        static = None
        with suppress(MpsprobeError):  # some models have no such cache
            fixed = replace(options, cache=STATIC)
            static = None if options.cache == STATIC else _of_tokens(vary, run(SHORT, fixed), run(2 * SHORT, fixed))
        return _of_tokens(vary, run(SHORT), run(2 * SHORT), static)
    steps = options.new_tokens - 1 if generates and vary.what == "seq-len" else 0  # the prompt gives the first token
    return _of_lengths(vary, run, steps)


@dataclass(frozen=True, slots=True)
class _Run:
    """The graphs of a run: of its first pass (of a generation that over the prompt, else all), and of the whole."""

    first: Keys
    whole: Keys


def _of_lengths(vary: Vary, run: Callable[[int], _Run], steps: int) -> GraphGrowth:
    """``steps``: of a generation, whose step after a prompt has the shapes of the one before after a longer prompt."""
    tried = sorted({vary.first, (vary.first + vary.last) // 2, vary.last}, reverse=True)  # the last may be too long
    found = [run(value) for value in tried]
    fixed, each = _shared([one.whole for one in found])
    again = GraphCount(least=0, most=0)  # what a length compiles that the next one does not have to
    if steps:
        _, alone = _shared([one.first for one in found])
        later = [
            -(-max(0, every - one) // steps) for every, one in ((each.least, alone.least), (each.most, alone.most))
        ]
        again = GraphCount(least=(steps - 1) * later[0], most=(steps - 1) * later[1])
        each = GraphCount(least=alone.least + later[0], most=alone.most + later[1])
    step = 1
    while vary.last // step - (vary.first - 1) // step > FEW_LENGTHS:
        step *= 2
    rounded = -(-vary.last // step) - -(-vary.first // step) + 1
    padded_each = GraphCount(least=each.least + again.least, most=each.most + again.most)
    total = _times(fixed, each, vary.last - vary.first + 1)
    return GraphGrowth(
        varied=vary.what,
        first=vary.first,
        last=vary.last,
        tried=tried[::-1],
        fixed=fixed,
        each=each,
        total=GraphCount(least=total.least + again.least, most=total.most + again.most),
        padded_to=step,
        padded=_times(fixed, padded_each, rounded),
    )


def _of_tokens(vary: Vary, shorter: _Run, longer: _Run, static: GraphGrowth | None = None) -> GraphGrowth:
    """From two generations: the longer one compiles as many more as its further steps need.

    They need not have one graph in common: a static cache is as long as the generation.
    """
    whole, more = shorter.whole.count, longer.whole.count
    each = GraphCount(
        least=-(-max(0, more.least - whole.least) // SHORT), most=-(-max(0, more.most - whole.most) // SHORT)
    )
    fixed = GraphCount(least=max(0, whole.least - SHORT * each.least), most=max(0, whole.most - SHORT * each.most))
    return GraphGrowth(
        varied=vary.what,
        first=vary.first,
        last=vary.last,
        tried=[SHORT, 2 * SHORT],
        fixed=fixed,
        each=each,
        total=_times(fixed, each, vary.last),
        static=static.total if static else None,
    )


def _shared(found: list[Keys]) -> tuple[GraphCount, GraphCount]:
    """How many graphs several lengths share, and how many one has alone."""
    certain, possible = _split([one.certain for one in found]), _split([one.possible for one in found])
    fixed = GraphCount(least=certain[0], most=certain[0] + possible[0])
    return fixed, GraphCount(least=certain[1], most=certain[2] + possible[2])


def _split(found: list[frozenset[Key]]) -> tuple[int, int, int]:
    """How many keys several lengths share, and the fewest and the most that one has alone."""
    if len(found) == 1:
        return len(found[0]), 0, 0
    shared = frozenset(key for one in found for key in one if sum(key in other for other in found) > 1)
    alone = [len(one - shared) for one in found]
    return len(shared), min(alone), max(alone)


def _times(fixed: GraphCount, each: GraphCount, lengths: int) -> GraphCount:
    return GraphCount(least=fixed.least + lengths * each.least, most=fixed.most + lengths * each.most)
