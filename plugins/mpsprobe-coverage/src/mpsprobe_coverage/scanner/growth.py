"""How many MPSGraphs a workload compiles over many lengths: a prediction, see ``docs/explanation/growth.md``."""

from __future__ import annotations

from collections.abc import Callable

from mpsprobe.errors import UsageError, WorkloadError
from mpsprobe.protocols import Progress, RunOptions, TorchRun, Workload
from mpsprobe.schemas import GraphCount, GraphGrowth
from mpsprobe_coverage.device import VirtualDevice
from mpsprobe_coverage.kernels.table import KernelTable
from mpsprobe_coverage.scanner.graphs import Key, Keys, compiles, keys_of
from mpsprobe_coverage.scanner.scan import settled
from mpsprobe_coverage.scanner.vary import Vary

FEW_LENGTHS = 8  # that padding should leave
SHORT = 8  # tokens of the shorter of two generations that are compared


def growth(workload: Workload, options: RunOptions, table: KernelTable, vary: Vary, progress: Progress) -> GraphGrowth:
    """How many graphs ``workload`` compiles over all lengths of ``vary``, from a few that are run.

    Raises:
        UsageError: the release, or the phase, does not fit.
        WorkloadError: it cannot be built, or raises with one of the lengths.
    """
    if compiles("", table) is None:
        raise UsageError(f"which kernels compile graphs was not read from torch {table.release}", "Leave --vary out.")
    if (vary.what == "new-tokens") != (options.phase == "generate"):
        raise UsageError(
            f"--vary {vary.what} does not go with --phase {options.phase}",
            "A generation varies in new-tokens, every other phase in seq-len or batch-size.",
        )

    def run(value: int) -> Keys:
        progress.advance(f"running it with {vary.what} {value}")
        varied = vary.with_value(options, value)
        device = VirtualDevice(table, keep_weights=options.weights)
        with device.construction():
            built = workload.build(varied)
        if not isinstance(built, TorchRun):
            raise WorkloadError(f"'{workload.name}' did not build a TorchRun, but {type(built).__name__}")
        _, found = settled(built, varied, table, {}, device)
        if found.failure is not None:
            raise WorkloadError(f"with {vary.what} {value}: {found.failure.error}: {found.failure.message}")
        return keys_of(found.recorder.calls(), table)

    return _of_tokens(vary, run(SHORT), run(2 * SHORT)) if vary.what == "new-tokens" else _of_lengths(vary, run)


def _of_lengths(vary: Vary, run: Callable[[int], Keys]) -> GraphGrowth:
    tried = sorted({vary.first, (vary.first + vary.last) // 2, vary.last})
    found = [run(value) for value in tried]
    certain = _split([one.certain for one in found])
    possible = _split([one.possible for one in found])
    fixed = GraphCount(least=certain[0], most=certain[0] + possible[0])
    each = GraphCount(least=certain[1], most=certain[2] + possible[2])
    lengths = vary.last - vary.first + 1
    step = 1
    while vary.last // step - (vary.first - 1) // step > FEW_LENGTHS:
        step *= 2
    rounded = -(-vary.last // step) - -(-vary.first // step) + 1
    return GraphGrowth(
        varied=vary.what,
        first=vary.first,
        last=vary.last,
        tried=tried,
        fixed=fixed,
        each=each,
        total=_times(fixed, each, lengths),
        padded_to=step,
        padded=_times(fixed, each, rounded),
    )


def _of_tokens(vary: Vary, shorter: Keys, longer: Keys) -> GraphGrowth:
    """From two generations, of which the longer one has the steps of the shorter one."""
    each = GraphCount(
        least=-(-len(longer.certain - shorter.certain) // SHORT),
        most=-(-len((longer.certain | longer.possible) - (shorter.certain | shorter.possible)) // SHORT),
    )
    whole = shorter.count
    fixed = GraphCount(least=max(0, whole.least - SHORT * each.least), most=max(0, whole.most - SHORT * each.most))
    return GraphGrowth(
        varied=vary.what,
        first=vary.first,
        last=vary.last,
        tried=[SHORT, 2 * SHORT],
        fixed=fixed,
        each=each,
        total=_times(fixed, each, vary.last),
    )


def _split(found: list[frozenset[Key]]) -> tuple[int, int, int]:
    """How many keys several lengths share, and the fewest and the most that one has alone."""
    if len(found) == 1:
        return len(found[0]), 0, 0
    shared = frozenset(key for one in found for key in one if sum(key in other for other in found) > 1)
    alone = [len(one - shared) for one in found]
    return len(shared), min(alone), max(alone)


def _times(fixed: GraphCount, each: GraphCount, lengths: int) -> GraphCount:
    return GraphCount(least=fixed.least + lengths * each.least, most=fixed.most + lengths * each.most)
