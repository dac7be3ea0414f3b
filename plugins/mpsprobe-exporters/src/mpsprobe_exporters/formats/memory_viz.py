"""A snapshot of memory, as PyTorch's page pytorch.org/memory_viz and ``torch/cuda/_memory_viz.py`` open it.

The page takes pickles and nothing else. The keys are those of ``torch.cuda.memory._snapshot()``.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from mpsprobe.errors import ReportError
from mpsprobe_exporters.supported import supported_report

if TYPE_CHECKING:
    from mpsprobe.schemas import Allocation, AllocationList, CoverageReport
    from mpsprobe.schemas.report import Report

HEAP_ALIGNMENT = 2**21
# Opcodes of Python's ``pickletools``, of the few that ``unpickle`` of the page's ``MemoryViz.js`` reads.
PROTO, STOP, MARK = b"\x80\x04", b".", b"("
EMPTY_DICT, SETITEMS, EMPTY_LIST, APPENDS = b"}", b"u", b"]", b"e"
BINUNICODE, MEMOIZE, LONG_BINGET, LONG1 = b"X", b"\x94", b"j", b"\x8a"
TOGETHER = 1000  # items of a list at a time: the page puts them on JavaScript's stack
Frames = list[dict[str, Any]]


class MemoryVizExporter:
    """Writes the allocations of a step, with the heaps in which the allocator of the release places them."""

    def render(self, report: Report) -> bytes:
        read: CoverageReport = supported_report(report, "memory-viz")
        listed = read.memory.allocations if read.memory else None
        if listed is None:
            raise ReportError(
                "the report does not have the allocations that memory-viz shows",
                "Make it with mpsprobe coverage WORKLOAD --allocations, or --export memory-viz.",
            )
        # Storages in a heap that is not in the list are left out.
        placed = [storage for storage in listed.storages if storage.segment < len(listed.segments)]
        return pickled(_snapshot(listed.model_copy(update={"storages": placed})))


def _snapshot(listed: AllocationList) -> dict[str, Any]:
    """What ``torch.cuda.memory._snapshot()`` would return after the step, for one device."""
    # Of the heaps: one after the other, with a gap between them.
    places = ((-(-size // HEAP_ALIGNMENT) + 1) * HEAP_ALIGNMENT for size in listed.segments)
    addresses = list(accumulate(places, initial=HEAP_ALIGNMENT))[:-1]
    alive: dict[int, list[Allocation]] = {}
    for storage in listed.storages:
        if storage.ends is None:
            alive.setdefault(storage.segment, []).append(storage)
    segments = [_segment(listed, number, address, alive.get(number, [])) for number, address in enumerate(addresses)]
    return {"segments": segments, "device_traces": [list(_events(listed, addresses))]}


def _events(listed: AllocationList, addresses: list[int]) -> Iterator[dict[str, Any]]:
    # The page looks up "unknown" among the categories whether anything has it, and ends where nothing does.
    yield _event("snapshot", 0, 0, [], category="unknown")
    moments = [(storage.begins, True, storage) for storage in listed.storages]
    moments += [(storage.ends, False, storage) for storage in listed.storages if storage.ends is not None]
    seen: set[int] = set()
    for _, begins, storage in sorted(moments, key=lambda moment: moment[0]):
        start = addresses[storage.segment]
        if storage.segment not in seen:
            seen.add(storage.segment)
            yield _event("segment_alloc", start, listed.segments[storage.segment], _frames(listed, storage))
        for action in ("alloc",) if begins else ("free_requested", "free_completed"):
            place, frames = start + storage.offset, _frames(listed, storage)
            yield _event(action, place, storage.bytes, frames, category=storage.category)


def _event(action: str, address: int, size: int, frames: Frames, **more: str) -> dict[str, Any]:
    return {"action": action, "addr": address, "size": size, "stream": 0, "frames": frames, **more}


def _frames(listed: AllocationList, storage: Allocation) -> Frames:
    """What the page writes below a block, as ``filename:line:name``, the innermost first."""
    call = listed.calls[storage.call] if storage.call is not None and storage.call < len(listed.calls) else None
    module = storage.module if storage.module is not None or call is None else call.module
    frames = []
    if call is not None:
        file, _, line = (call.call_site or "").rpartition(":")
        frames.append({"filename": file, "line": int(line) if line.isdecimal() else 0, "name": call.operator})
    if module is not None:
        frames.append({"filename": "module", "line": 0, "name": module or "the model"})
    return [*frames, {"filename": storage.phase or "before the step", "line": 0, "name": storage.category}]


def _segment(listed: AllocationList, number: int, address: int, alive: list[Allocation]) -> dict[str, Any]:
    """A heap as it is after the step; what is in none of the blocks is free."""
    size, end = listed.segments[number], 0
    blocks: list[dict[str, Any]] = []
    for storage in sorted(alive, key=lambda storage: storage.offset):
        if storage.offset > end:
            blocks.append(_block(address + end, storage.offset - end, 0, "inactive", []))
        place, frames = address + storage.offset, _frames(listed, storage)
        blocks.append(_block(place, storage.size, storage.bytes, "active_allocated", frames))
        end = storage.offset + storage.size
    if end < size:
        blocks.append(_block(address + end, size - end, 0, "inactive", []))
    active = sum(storage.size for storage in alive)
    sizes = {"total_size": size, "allocated_size": active, "active_size": active}
    return {"device": 0, "address": address, **sizes, "stream": 0, "frames": [], "blocks": blocks}


def _block(address: int, size: int, requested: int, state: str, frames: Frames) -> dict[str, Any]:
    return {"address": address, "size": size, "requested_size": requested, "state": state, "frames": frames}


def pickled(value: Any) -> bytes:
    """Dictionaries, lists, text and whole numbers as a pickle, which names no class; equal texts are in it once."""
    return b"".join((PROTO, *_written(value, {}), STOP))


def _written(value: Any, memo: dict[str, int]) -> Iterator[bytes]:
    if isinstance(value, str):
        if value in memo:
            yield LONG_BINGET + memo[value].to_bytes(4, "little")
        else:
            memo[value] = len(memo)
            text = value.encode("utf-8", "backslashreplace")  # a lone surrogate
            yield BINUNICODE + len(text).to_bytes(4, "little") + text + MEMOIZE
    elif isinstance(value, int):
        size = value.bit_length() // 8 + 1
        yield LONG1 + bytes([size]) + value.to_bytes(size, "little", signed=True)
    elif isinstance(value, dict):
        yield EMPTY_DICT + MARK
        for pair in value.items():
            for end in pair:
                yield from _written(end, memo)
        yield SETITEMS
    else:
        yield EMPTY_LIST
        for start in range(0, len(value), TOGETHER):
            yield MARK
            for part in value[start : start + TOGETHER]:
                yield from _written(part, memo)
            yield APPENDS
