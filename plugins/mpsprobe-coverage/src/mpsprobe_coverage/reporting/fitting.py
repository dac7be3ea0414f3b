"""Whether a run fits on a Mac: its storages in the allocator of the release, with the limits that people published.

What PyTorch does at each limit, from ``MPSAllocator.mm`` and ``MPSStream.mm``: from the low watermark on, allocations
of more than 1 MiB release cached buffers first, and every kernel commits its command buffer at once, so that buffers
come back earlier. Where the high watermark would be passed, all cached buffers are released, and it raises if that is
not enough. Between what Metal recommends and these, nothing of PyTorch changes: Metal no longer keeps all of it
resident, so macOS compresses memory and swaps. With the usual ratios both watermarks lie above that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from mpsprobe.schemas import MemoryEnd, MemoryFit
from mpsprobe_coverage.knowledge.chips.limits import Mac, limits_of
from mpsprobe_coverage.knowledge.memory.allocator import Figures, Limits, allocator_of, replay, watermarks
from mpsprobe_coverage.knowledge.memory.lifetimes import Event
from mpsprobe_coverage.knowledge.memory.timeline import Change, changes
from mpsprobe_coverage.reporting.findings import site

Answer = Literal["fits", "pressure", "raises"]


@dataclass
class Needs:
    """What a run needs of memory."""

    release: str
    steady: Sequence[Change]  # the beginnings and ends of storages in any step but the first

    @cached_property
    def unlimited(self) -> Figures:
        """What the allocator makes of them where nothing limits it. Raises as ``fit_on``."""
        return replay(self.steady, allocator_of(self.release, Limits(None, None, *watermarks())))

    @cached_property
    def largest(self) -> int:
        """Bytes of the largest storage."""
        return max((change.storage.nbytes for change in self.steady), default=0)


def fit_on(mac: Mac, needs: Needs, events: Sequence[Event] = ()) -> MemoryFit:
    """Whether ``needs`` fit on ``mac``; with the ``events`` of the run, the first step is looked at too.

    Raises ``UsageError`` where PyTorch's variables hold what it refuses.
    """
    known = limits_of(mac.memory)
    low, high = (_end(limits, needs, events) for limits in ends_of(mac))
    worst = max(low.answer, high.answer, key=("fits", "pressure", "raises").index)
    return MemoryFit(
        machine=mac.name,
        memory_bytes=mac.memory,
        answer="unclear" if worst == "raises" and low.answer != high.answer else worst,
        low=low,
        high=high,
        basis="neighbours" if known.recommended.basis == "neighbours" else "published",
        sources=sorted({figure.source for figure in (*known.recommended.figures, *known.largest_buffer.figures)}),
    )


def ends_of(mac: Mac) -> tuple[Limits, Limits]:
    """The limits by the smallest published figures, and by the largest. Raises as ``fit_on``."""
    known, ratios = limits_of(mac.memory), watermarks()
    recommended, buffer = known.recommended, known.largest_buffer
    return Limits(recommended.low, buffer.low, *ratios), Limits(recommended.high, buffer.high, *ratios)


def _below(reserved: int, largest: int, limits: Limits) -> bool:
    assert limits.recommended is not None and limits.buffer is not None
    return reserved <= min(limits.recommended, limits.allowed, limits.short) and largest < limits.buffer


def answer_with(limits: Limits, needs: Needs) -> Answer:
    """What becomes of a run on a Mac with these limits."""
    most = needs.unlimited
    if needs.largest >= (limits.buffer or needs.largest + 1) or most.in_use > limits.allowed:
        return "raises"
    return _end(limits, needs).answer


def _end(limits: Limits, needs: Needs, events: Sequence[Event] = ()) -> MemoryEnd:
    assert limits.recommended is not None and limits.buffer is not None
    figures, first_step = needs.unlimited, True
    if not _below(figures.reserved, needs.largest, limits):
        figures = replay(needs.steady, allocator_of(needs.release, limits))
    if figures.raised and events:
        first = replay(changes(events, steady=False), allocator_of(needs.release, limits))
        figures, first_step = (first, True) if first.raised else (figures, False)
    answer: Answer = "raises" if figures.raised else "pressure" if figures.reserved > limits.recommended else "fits"
    refused = figures.refused
    call = refused.call if refused and refused.phase else None  # what is moved is made by no call of the step
    return MemoryEnd(
        answer=answer,
        recommended_bytes=limits.recommended,
        largest_buffer_bytes=limits.buffer,
        collects_bytes=limits.short if limits.low else None,
        allowed_bytes=limits.allowed if limits.high else None,
        margin_bytes=limits.allowed - needs.unlimited.in_use if limits.high else None,
        reserved_bytes=figures.reserved,
        message=figures.raised,
        refused=refused.category if refused else None,
        refused_bytes=refused.nbytes if refused else 0,
        phase=refused.phase if refused else None,
        first_step=first_step,
        operator=call.operator if call else None,
        module=(call.module if call else None) or (refused.module if refused else None),
        call_site=site(call.file, call.line) if call and call.file else None,
    )
