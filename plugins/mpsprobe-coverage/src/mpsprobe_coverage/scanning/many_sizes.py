"""What the allocator asks Metal for over batches of many sizes: until 2.14.0 it keeps buffers of each.

And what would save that: lengths that are padded to a few, ``empty_cache`` after each step, or a lower low watermark,
from which on the allocator gives cached buffers back before it asks for more (``knowledge/memory/allocator.py``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import ceil
from random import Random

from mpsprobe.protocols import MacOptions
from mpsprobe.schemas import ReservedGrowth
from mpsprobe_coverage.devices.virtual.mps_in_python import machine_or_usual
from mpsprobe_coverage.knowledge.chips.limits import Mac, limits_of, mac_asked
from mpsprobe_coverage.knowledge.memory.allocator import EMPTIES, LOW, Figures, Limits, allocator_of, replay
from mpsprobe_coverage.knowledge.memory.lifetimes import BUFFERS, OPTIMIZER, PARAMETERS, TEMPORARY
from mpsprobe_coverage.knowledge.memory.timeline import Change, Storage
from mpsprobe_coverage.reporting.fitting import Needs
from mpsprobe_coverage.scanning.interpolating import Interpolation
from mpsprobe_coverage.scanning.vary import Vary

BATCHES = 64
FEW_LENGTHS = 8  # that padding should leave
FOLLOWED = 2**17  # storages of a program: `kMostBlocks` in `native/device.cpp`
_STAYS = (PARAMETERS, BUFFERS, OPTIMIZER)
_UPDATED, _CALLED, _EMPTIED = 0, -(2**63), 1 - 2**63  # in what C++ notes: `native/device.cpp`
_EMPTY = Change(Storage(0, EMPTIES, None, None), False)

Step = list[Change]


def reserved_growth(
    vary: Vary, runs: Mapping[int, Needs], release: str, padded_to: int, options: MacOptions
) -> ReservedGrowth | None:
    """Over ``BATCHES`` values of ``vary``, interpolated between ``runs``; None if these differ in more than sizes."""
    between = Interpolation(runs.__getitem__, sorted(runs))
    if not between.exact:
        return None
    draw = Random(0)
    drawn = [draw.randint(vary.first, vary.last) for _ in range(BATCHES - 1)]
    drawn.insert(BATCHES // 2, vary.last)
    padded = [min(vary.last, -(-value // padded_to) * padded_to) for value in drawn]

    def steps(values: Sequence[int]) -> list[Step]:
        return [*_alone(between.at(value).steady for value in values)]

    return _growth(
        release, options, steps(drawn), steps([vary.last]), steps(padded) if padded_to > 1 else None, len({*drawn})
    )


def growth_of_program(order: Sequence[int], release: str, options: MacOptions) -> ReservedGrowth | None:
    """Over the steps of a program, of what ``NativeDevice.memory_order`` noted; None where they have one size."""
    steps = _steps(order)
    like = _alike(steps)
    sizes = max((len({_sizes(steps[number]) for number in alike}) for alike in like), default=0)
    if sizes < 2:
        return None
    padded = _padded(steps, like, FEW_LENGTHS) if sizes > FEW_LENGTHS else None
    growth = _growth(release, options, steps, _padded(steps, like, 1), padded, sizes)
    return growth.model_copy(update={"complete": sum(entry > 0 for entry in order) < FOLLOWED})


def _growth(
    release: str,
    options: MacOptions,
    steps: Sequence[Step],
    largest: Sequence[Step],
    padded: Sequence[Step] | None,
    sizes: int,
) -> ReservedGrowth:
    """``steps`` one after another; ``largest``: what one of the largest alone would take."""

    def taken(steps: Iterable[Step], limits: Limits | None = None) -> Figures:
        return replay((change for step in steps for change in step), allocator_of(release, limits or Limits()))

    asked, alone = taken(steps), taken(largest).reserved
    growth = ReservedGrowth(
        batches=len(steps),
        sizes=sizes,
        in_use_bytes=asked.in_use,
        largest_bytes=alone,
        reserved_bytes=asked.reserved,
        padded_bytes=None if padded is None else taken(padded).reserved,
        emptied_bytes=taken([*step, _EMPTY] for step in steps).reserved,
    )
    mac = mac_asked(options) or _usual(options.chip)
    recommended = limits_of(mac.memory).recommended.low
    ratio = ceil(10 * alone / recommended) / 10
    if not 0 < ratio < LOW or asked.reserved <= ratio * recommended:
        return growth
    low = taken(steps, Limits(recommended, high=0, low=ratio)).reserved
    return growth.model_copy(update={"low_watermark": ratio, "low_watermark_bytes": low, "machine": mac.name})


def _usual(chip: str | None) -> Mac:
    machine = machine_or_usual(chip)
    assert machine.memory_bytes is not None
    return Mac(machine.name, machine.memory_bytes)


def _alone(steps: Iterable[Sequence[Change]]) -> Iterator[Step]:
    """Each with the end of what it leaves; what the model and its optimizer keep is there from the first on."""
    for number, changes in enumerate(steps):
        left: dict[int, Storage] = {}
        step = [change for change in changes if not (number and change.storage.category in _STAYS)]
        for storage, begins in ((change.storage, change.begins) for change in step):
            if begins and storage.category not in _STAYS:
                left[id(storage)] = storage
            else:
                left.pop(id(storage), None)
        yield [*step, *(Change(storage, False) for storage in left.values())]


def _steps(order: Sequence[int]) -> list[Step]:
    """From one end of an optimizer's step to the next; where none runs, from one call of a model to the next."""
    ends = _UPDATED if _UPDATED in order else _CALLED
    storages: list[Storage] = []
    steps: list[Step] = [[]]
    for entry in order:
        if entry == ends:
            steps.append([])
        elif entry == _EMPTIED:
            steps[-1].append(_EMPTY)
        elif entry > 0:
            storages.append(Storage(entry, TEMPORARY, None, None))
            steps[-1].append(Change(storages[-1], True))
        elif entry not in (_UPDATED, _CALLED):
            steps[-1].append(Change(storages[-1 - entry], False))
    return [step for step in steps if any(change.begins for change in step)]


def _sizes(step: Step) -> tuple[int, ...]:
    return tuple(change.storage.nbytes for change in step if change.begins)


def _alike(steps: Sequence[Step]) -> list[list[int]]:
    """The numbers of steps that differ in sizes alone: they make storages, and end them, in the same order."""
    made: dict[int, tuple[int, int]] = {}  # in which step, and as which of it, from its end: the first has more before
    alike: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for number, step in enumerate(steps):
        place = -len(_sizes(step))
        shape: list[object] = []
        for change in step:
            if change.begins:
                made[id(change.storage)] = number, place
                place += 1
                shape.append(True)
            elif change is not _EMPTY:
                of, its = made[id(change.storage)]
                shape.append((number - of, its))
        alike[tuple(shape)].append(number)
    return [*alike.values()]


def _padded(steps: Sequence[Step], like: Iterable[Sequence[int]], lengths: int) -> list[Step]:
    """The same with ``lengths`` sizes: each step that is like others has those of the next larger one that is kept."""
    instead: dict[int, Storage] = {}
    for numbers in like:
        ordered = sorted({_sizes(steps[number]) for number in numbers}, key=sum)
        width = -(-len(ordered) // lengths)
        larger = {
            sizes: ordered[min(len(ordered), (place // width + 1) * width) - 1] for place, sizes in enumerate(ordered)
        }
        for step in map(steps.__getitem__, numbers):
            begun = [change.storage for change in step if change.begins]
            for storage, nbytes in zip(begun, larger[_sizes(step)], strict=True):
                instead[id(storage)] = replace(storage, nbytes=nbytes)
    return [
        [Change(instead.get(id(change.storage), change.storage), change.begins) for change in step] for step in steps
    ]
