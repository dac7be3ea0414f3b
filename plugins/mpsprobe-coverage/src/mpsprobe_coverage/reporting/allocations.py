"""Every storage of a run with its place in the heaps of the allocator: what a report has where it was asked for."""

from __future__ import annotations

from collections.abc import Sequence

from mpsprobe.schemas import AllocatingCall, Allocation, AllocationList
from mpsprobe_coverage.knowledge.memory.allocator import Allocator, Place, replay
from mpsprobe_coverage.knowledge.memory.lifetimes import Made
from mpsprobe_coverage.knowledge.memory.timeline import Change
from mpsprobe_coverage.reporting.findings import site


def allocation_list(changes: Sequence[Change], allocator: Allocator) -> AllocationList:
    """The storages of ``changes`` in ``allocator``, which is new and has no limits; those of no bytes are left out."""
    changes = [change for change in changes if change.storage.nbytes]
    places: list[Place] = []
    replay(changes, allocator, places)
    ends = {id(one.storage): number for number, one in enumerate(changes) if not one.begins}
    begins = [(number, one.storage) for number, one in enumerate(changes) if one.begins]
    calls: dict[AllocatingCall, int] = {}
    storages = [
        Allocation(
            bytes=one.nbytes,
            category=one.category,
            begins=number,
            ends=ends.get(id(one)),
            phase=one.phase,
            call=None if one.call is None else calls.setdefault(_call(one.call), len(calls)),
            module=one.module,
            segment=place.segment,
            offset=place.offset,
            size=place.size,
        )
        for (number, one), place in zip(begins, places, strict=True)
    ]
    return AllocationList(storages=storages, calls=[*calls], segments=allocator.segments)


def _call(call: Made) -> AllocatingCall:
    place = None if call.file is None else site(call.file, call.line)
    return AllocatingCall(operator=call.operator, module=call.module, call_site=place)
