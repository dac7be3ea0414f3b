"""What is alive when: from the events of a run to its peak, and to what holds memory there.

**A steady step.** In the first step of a training the optimizer has no state before its first update; in every later
one that state is there from the beginning. What an optimizer made is therefore counted from the beginning, and the
peak is that of a later step: the forward pass, the backward pass and the update allocate alike in both, because
gradients are None again after ``zero_grad``. Two steps on the CPU agree with it (``test_lifetimes.py``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from mpsprobe_coverage.knowledge.memory.inside_kernels import bytes_inside
from mpsprobe_coverage.knowledge.memory.lifetimes import (
    ACTIVATIONS,
    BACKWARD,
    FORWARD,
    OPTIMIZER,
    TEMPORARY,
    Block,
    Event,
    Made,
    Phase,
)

POINTS = 240  # of a curve, at most
INSIDE = "inside kernels"


@dataclass(slots=True)
class Storage:
    """One storage: what it holds, which call allocated it, and in which phase."""

    nbytes: int
    category: str
    module: str | None
    phase: str | None
    call: Made | None = None
    is_output: bool = False  # the model returned it

    @property
    def inside(self) -> str | None:
        """The module that holds it, else the one that called for it."""
        return self.module if self.module is not None or self.call is None else self.call.module


@dataclass(slots=True)
class Change:
    storage: Storage
    begins: bool


@dataclass(slots=True)
class Timeline:
    """Bytes of the storages that are alive; those inside kernels are with them."""

    changes: list[Change]  # every beginning and end, in order, for a model of an allocator
    peak: int = 0  # the most bytes at one time
    phase: str | None = None  # in which it is
    alive: list[Storage] = field(default_factory=list)  # at the peak
    by_phase: dict[str, int] = field(default_factory=dict)  # the peak of each phase
    curve: list[tuple[str, int]] = field(default_factory=list)  # (phase, most bytes) of up to `POINTS` stretches
    largest: Storage | None = None
    kernels: int = 0  # the most bytes that a kernel itself allocates in addition to its results


def changes(events: Sequence[Event], *, steady: bool = True) -> list[Change]:
    """The beginnings and ends of ``events``, those inside kernels too.

    ``steady``: what the optimizer keeps is there from the beginning.
    """
    later: list[Change] = []
    first: list[Change] = []
    alive: dict[Block, Storage] = {}
    new: list[Storage] = []
    phase: str | None = None
    for event in events:
        if type(event) is Block:
            storage = alive.pop(event, None)
            begins = storage is None
            if storage is None:
                storage = Storage(event.nbytes, event.category or TEMPORARY, event.owner, phase, None, event.is_output)
                alive[event] = storage
                new.append(storage)
            early = begins and steady and storage.category == OPTIMIZER
            (first if early else later).append(Change(storage, begins))
        elif type(event) is Made:
            for storage in new:
                storage.call = event
            new.clear()
            inside = bytes_inside(event)
            if inside:
                kernel = Storage(inside, INSIDE, event.module, phase, event)
                later += (Change(kernel, True), Change(kernel, False))
        elif type(event) is Phase:
            new.clear()  # what was moved to the device is made by no call
            if phase == FORWARD and event.name != FORWARD:
                for storage in alive.values():
                    if storage.phase == FORWARD and storage.category == TEMPORARY:
                        storage.category = FORWARD  # kept beyond the forward pass
            if event.name == BACKWARD:
                for storage in alive.values():
                    if storage.category == FORWARD:
                        storage.category = ACTIVATIONS
            phase = event.name
    for change in later:
        if change.storage.category == FORWARD:
            change.storage.category = TEMPORARY
    return first + later


def timeline(events: Sequence[Event]) -> Timeline:
    all_of_them = changes(events)
    made = Timeline(all_of_them)
    live = peak_at = 0
    heights: list[int] = []
    phase = ""
    phases: list[str] = []
    for position, change in enumerate(all_of_them):
        storage = change.storage
        if change.begins:
            live += storage.nbytes
            phase = storage.phase or phase
            if storage.category == OPTIMIZER:
                phase = ""
            if live > made.peak:
                made.peak, peak_at, made.phase = live, position, phase or None
            if phase and live > made.by_phase.get(phase, 0):
                made.by_phase[phase] = live
            if storage.category == INSIDE:
                made.kernels = max(made.kernels, storage.nbytes)
            elif made.largest is None or storage.nbytes > made.largest.nbytes:
                made.largest = storage
        else:
            live -= storage.nbytes
        heights.append(live)
        phases.append(phase)
    made.curve = _curve(heights, phases)
    before = all_of_them[: peak_at + 1]
    ended = {id(change.storage) for change in before if not change.begins}
    made.alive = [change.storage for change in before if change.begins and id(change.storage) not in ended]
    return made


def peak_with_output_kept(changes: Iterable[Change]) -> int:
    """The peak in a loop that has a name for what the model returns: it lives until the next forward pass has ended."""
    live = peak = new = 0
    previous: int | None = None  # bytes of the output before this one; None in the first forward pass
    phase: str | None = None
    for change in changes:
        storage = change.storage
        is_kept = storage.is_output and storage.category in (ACTIVATIONS, TEMPORARY)
        if change.begins:
            if phase == FORWARD and storage.phase != FORWARD:
                # The step before this one had the same output: the first peak is that much higher.
                live, peak = (live, peak + new) if previous is None else (live - previous, peak)
                previous, new = new, 0
            phase = storage.phase
            live += storage.nbytes
            new += storage.nbytes * is_kept
            peak = max(peak, live)
        elif not is_kept:
            live -= storage.nbytes
    return peak


def _curve(heights: Sequence[int], phases: Sequence[str]) -> list[tuple[str, int]]:
    """The highest of each stretch; one never goes over the end of a phase."""
    width = max(1, len(heights) // POINTS + 1)
    stretches: list[tuple[str, int]] = []
    start = 0
    for position, phase in enumerate(phases):
        if position - start >= width or phase != phases[start]:
            stretches.append((phases[start], max(heights[start:position])))
            start = position
    if heights:
        stretches.append((phases[start], max(heights[start:])))
    return stretches
