"""When each storage of a run begins and ends: one list of events, written while the run goes on.

Whoever makes storages keeps one ``Held`` for each, on what lives exactly as long as the storage does: views share it,
and what autograd saves keeps it. When the last of them goes, Python deletes it, and that is the end of the storage.
Nothing is worked out before the run is over: a storage costs two objects and two entries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from mpsprobe_coverage.knowledge.calls.spec import Specs

# What a storage holds. The words are those of PyTorch's own memory profiler where it has them.
PARAMETERS, BUFFERS, GRADIENTS, OPTIMIZER = "parameters", "buffers", "gradients", "optimizer state"
INPUTS, ACTIVATIONS, CACHE, TEMPORARY = "inputs", "activations", "cache", "temporary"
CATEGORIES = (PARAMETERS, BUFFERS, INPUTS, OPTIMIZER, GRADIENTS, ACTIVATIONS, CACHE, TEMPORARY)
FORWARD, BACKWARD = "forward", "backward"


class Block:
    """The bytes of one storage; ``category`` and ``owner`` (a module) are set where somebody knows them.

    ``is_output``: the model returned it, so that a loop may keep it.
    """

    __slots__ = ("category", "is_output", "nbytes", "owner")

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes
        self.category: str | None = None
        self.owner: str | None = None
        self.is_output = False


class Held:
    """Lives as long as one storage; the end of this object is the end of that."""

    __slots__ = ("_events", "block")

    def __init__(self, block: Block, events: list[Event]) -> None:
        self.block, self._events = block, events
        events.append(block)

    def __del__(self) -> None:
        self._events.append(self.block)

    def begin_again(self, events: list[Event]) -> None:
        """In the events of another run, where it was moved to the device in an earlier one."""
        if self._events is not events:
            self.block, self._events = Block(self.block.nbytes), events
            events.append(self.block)

    def grow(self, nbytes: int) -> None:
        """The storage has ``nbytes`` from now on: others are allocated, and those before are freed then."""
        if nbytes > self.block.nbytes:
            before, self.block = self.block, Block(nbytes)
            self.block.category, self.block.owner = before.category, before.owner
            self._events += (self.block, before)


class Made(NamedTuple):
    """A call has ended, which allocated what is new since the last one of these."""

    operator: str
    module: str | None  # that called it; None outside of all
    file: str | None  # where in the source; None where that is not known
    line: int
    inputs: Specs = ()  # of its tensors, where they are known
    outputs: Specs = ()
    verdict: str = ""  # what becomes of it; empty where nobody judged it


class Phase(NamedTuple):
    """What is run from now on; None: nothing that counts."""

    name: str | None


Event = Block | Made | Phase
"""In a list of events a block stands twice: where it is allocated and where it is freed."""


def of_step(events: Sequence[Event]) -> Sequence[Event]:
    """Those up to the end of the last phase: after the step Python deletes things."""
    ends = [number for number, event in enumerate(events) if type(event) is Phase]
    return events[: ends[-1] + 1] if ends else events


class Lifetimes:
    """The events of one run, in their order.

    ``events`` may be read at any time. Storages that live on have one entry there; ``end`` stops the recording.
    """

    def __init__(self) -> None:
        self.events: list[Event] = []
        # Whether a call with these inputs returns its first result for the second one too.
        self.returns_twice: Callable[[str, Specs], bool] | None = None

    def begin(self, nbytes: int) -> Held:
        """A storage of ``nbytes`` is allocated; keep what is returned for as long as that lives."""
        return Held(Block(nbytes), self.events)

    def has(self, held: Held) -> bool:
        return held._events is self.events

    def made(
        self,
        operator: str,
        origin: tuple[str | None, str | None, int] = (None, None, 0),
        inputs: Specs = (),
        outputs: Specs = (),
        verdict: str = "",
    ) -> None:
        """What was allocated since the last call belongs to this one; see ``Made``."""
        if self.returns_twice is not None and len(outputs) == 2 and self.returns_twice(operator, inputs):
            second = self.events[-1]
            if type(second) is Block and second.nbytes == outputs[1].held:
                second.nbytes, outputs = 0, outputs[:1]
        self.events.append(Made(operator, *origin, inputs, outputs, verdict))

    def phase(self, name: str | None) -> None:
        self.events.append(Phase(name))

    def end(self) -> list[Event]:
        return self.events.copy()


def label(held: Iterable[tuple[Held | None, str | None]], category: str) -> None:
    """Say what storages hold, each with the name of its module; those that have a category already keep it."""
    for storage, owner in held:
        if storage is not None and storage.block.category is None:
            storage.block.category, storage.block.owner = category, owner
