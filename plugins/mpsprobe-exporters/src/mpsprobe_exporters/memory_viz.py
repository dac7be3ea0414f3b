"""A snapshot of memory, as PyTorch's page pytorch.org/memory_viz and ``torch/cuda/_memory_viz.py`` open it.

The page takes pickles and nothing else: ``unpickle`` of its ``MemoryViz.js`` reads protocols 2 to 4, with the opcodes
that a snapshot needs (``pickling.py``). The keys are those of ``torch.cuda.memory._snapshot()``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from mpsprobe.errors import ReportError
from mpsprobe_exporters.pickling import pickled
from mpsprobe_exporters.supported import judged_report

if TYPE_CHECKING:
    from mpsprobe.schemas import Allocation, AllocationList
    from mpsprobe.schemas.report import Report

HEAP_ALIGNMENT = 2**21
UNKNOWN = "unknown"


class MemoryVizExporter:
    """Writes the allocations of a step, with the heaps in which the allocator of the release places them."""

    def render(self, report: Report) -> bytes:
        """The pickle.

        Raises:
            ReportError: the report does not have the allocations.
        """
        read = judged_report(report, "memory-viz")
        found = read.memory.allocations if read.kind == "coverage" and read.memory else None
        if found is None:
            raise ReportError(
                "the report does not have the allocations that memory-viz shows",
                "Make it with mpsprobe coverage WORKLOAD --allocations, or --export memory-viz.",
            )
        return pickled(snapshot(found))


def snapshot(found: AllocationList) -> dict[str, Any]:
    """What ``torch.cuda.memory._snapshot()`` would return after the step, for one device.

    Storages in a heap that is not in the list are left out.
    """
    placed = [one for one in found.storages if one.segment < len(found.segments)]
    found = found.model_copy(update={"storages": placed})
    addresses = _addresses(found.segments)
    return {"segments": list(_segments(found, addresses)), "device_traces": [list(_events(found, addresses))]}


def _addresses(segments: list[int]) -> list[int]:
    """Where each heap begins: one after the other, with a gap between them."""
    addresses = []
    following = HEAP_ALIGNMENT
    for size in segments:
        addresses.append(following)
        following += (-(-size // HEAP_ALIGNMENT) + 1) * HEAP_ALIGNMENT
    return addresses


def _events(found: AllocationList, addresses: list[int]) -> Iterator[dict[str, Any]]:
    # The page looks up "unknown" among the categories whether anything has it, and ends where nothing does.
    yield _event("snapshot", 0, 0, category=UNKNOWN)
    moments = [(one.begins, True, one) for one in found.storages]
    moments += [(one.ends, False, one) for one in found.storages if one.ends is not None]
    seen: set[int] = set()
    for _, begins, one in sorted(moments, key=lambda moment: moment[0]):
        start = addresses[one.segment]
        if one.segment not in seen:
            seen.add(one.segment)
            yield _event("segment_alloc", start, found.segments[one.segment], _frames(found, one))
        for action in ("alloc",) if begins else ("free_requested", "free_completed"):
            yield _event(action, start + one.offset, one.bytes, _frames(found, one), category=one.category)


def _event(
    action: str, address: int, size: int, frames: list[dict[str, Any]] | None = None, **more: str
) -> dict[str, Any]:
    return {"action": action, "addr": address, "size": size, "stream": 0, "frames": frames or [], **more}


def _frames(found: AllocationList, one: Allocation) -> list[dict[str, Any]]:
    """What the page writes below a block, as ``filename:line:name``, the innermost first."""
    call = found.calls[one.call] if one.call is not None and one.call < len(found.calls) else None
    module = one.module if one.module is not None or call is None else call.module
    frames = []
    if call is not None:
        file, _, line = (call.call_site or "").rpartition(":")
        frames.append({"filename": file, "line": int(line) if line.isdecimal() else 0, "name": call.operator})
    if module is not None:
        frames.append({"filename": "module", "line": 0, "name": module or "the model"})
    frames.append({"filename": one.phase or "before the step", "line": 0, "name": one.category})
    return frames


def _segments(found: AllocationList, addresses: list[int]) -> Iterator[dict[str, Any]]:
    """The heaps as they are after the step; what is in none of the blocks is free."""
    alive: dict[int, list[Allocation]] = {}
    for one in found.storages:
        if one.ends is None:
            alive.setdefault(one.segment, []).append(one)
    for number, (size, address) in enumerate(zip(found.segments, addresses, strict=True)):
        blocks: list[dict[str, Any]] = []
        end = 0
        for one in sorted(alive.get(number, ()), key=lambda one: one.offset):
            if one.offset > end:
                blocks.append(_block(address + end, one.offset - end, "inactive"))
            blocks.append(_block(address + one.offset, one.size, "active_allocated", one.bytes, _frames(found, one)))
            end = one.offset + one.size
        if end < size:
            blocks.append(_block(address + end, size - end, "inactive"))
        active = sum(one.size for one in alive.get(number, ()))
        yield {
            "device": 0,
            "address": address,
            "total_size": size,
            "allocated_size": active,
            "active_size": active,
            "stream": 0,
            "frames": [],
            "blocks": blocks,
        }


def _block(
    address: int, size: int, state: str, requested: int = 0, frames: list[dict[str, Any]] | None = None
) -> dict[str, Any]:
    return {"address": address, "size": size, "requested_size": requested, "state": state, "frames": frames or []}
