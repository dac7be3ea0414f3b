"""What the allocator asks Metal for over batches of many sizes: until 2.14.0 it keeps buffers of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from random import Random

from mpsprobe.schemas import ReservedGrowth
from mpsprobe_coverage.knowledge.memory.allocator import Allocator
from mpsprobe_coverage.knowledge.memory.lifetimes import BUFFERS, OPTIMIZER, PARAMETERS
from mpsprobe_coverage.knowledge.memory.mps_allocator import Limits, allocator_of
from mpsprobe_coverage.knowledge.memory.timeline import Change
from mpsprobe_coverage.reporting.fitting import Needs
from mpsprobe_coverage.scanning.interpolating import Interpolation
from mpsprobe_coverage.scanning.vary import Vary

BATCHES = 64
_STAYS = (PARAMETERS, BUFFERS, OPTIMIZER)


def reserved_growth(vary: Vary, runs: Mapping[int, Needs], release: str, padded_to: int) -> ReservedGrowth | None:
    """Over ``BATCHES`` values of ``vary``, interpolated between ``runs``; None if these differ in more than sizes."""
    between = Interpolation(runs.__getitem__, sorted(runs))
    if not between.exact:
        return None
    draw = Random(0)
    drawn = [draw.randint(vary.first, vary.last) for _ in range(BATCHES - 1)]
    drawn.insert(BATCHES // 2, vary.last)

    def reserved(values: Sequence[int], *, empties: bool = False) -> int:
        steps = (between.at(value).steady for value in values)
        return _reserved(steps, allocator_of(release, Limits()), empties)

    padded = [min(vary.last, -(-value // padded_to) * padded_to) for value in drawn]
    return ReservedGrowth(
        batches=BATCHES,
        largest_bytes=reserved([vary.last]),
        reserved_bytes=reserved(drawn),
        padded_bytes=reserved(padded) if padded_to > 1 else None,
        emptied_bytes=reserved(drawn, empties=True),
    )


def _reserved(steps: Iterable[Sequence[Change]], allocator: Allocator, empties: bool) -> int:
    """The most that ``allocator`` has at one time; what the model and its optimizer keep is there from the first on."""
    most = 0
    for number, changes in enumerate(steps):
        handles = {}
        for change in changes:
            storage = change.storage
            if not storage.nbytes or (number and storage.category in _STAYS):
                continue
            if change.begins:
                handles[id(storage)] = storage, allocator.allocate(storage.nbytes)
                most = max(most, allocator.reserved)
            else:
                allocator.free(handles.pop(id(storage))[1])
        for storage, handle in handles.values():
            if storage.category not in _STAYS:
                allocator.free(handle)
        if empties:
            allocator.empty()
    return most
