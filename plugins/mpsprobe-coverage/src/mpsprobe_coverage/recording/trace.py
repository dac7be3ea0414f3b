"""What a run on one release leaves behind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mpsprobe.schemas import MemoryPrediction, RunFailure
from mpsprobe_coverage.knowledge.calls.call import Calls
from mpsprobe_coverage.knowledge.judging.chain import Chain
from mpsprobe_coverage.knowledge.kernels.table import KernelTable
from mpsprobe_coverage.knowledge.memory.lifetimes import Event
from mpsprobe_coverage.recording.recorder import Recorder
from mpsprobe_coverage.recording.release_questions import Asked


@dataclass(slots=True)
class Trace:
    table: KernelTable
    recorder: Recorder
    calls: Calls
    failure: RunFailure | None
    parameters: int  # how many numbers they are; those that the run left without a shape are not counted
    parameters_bytes: int
    notes: Sequence[str] = ()
    error: BaseException | None = None  # what ``failure`` is about, until nobody can correct the inputs by it any more
    events: Sequence[Event] = ()  # when storages began and ended; none of a run that is about verdicts alone
    other_sizes: str = ""  # why a result had other sizes than on the CPU; empty if none had
    memory: MemoryPrediction | None = None  # the section of the report, where it was made already
    optimizer: str | None = None  # its name, of a training step
    asked: Asked | None = None  # None where another device than the virtual one saw the calls
    chain: Chain | None = None  # who judged the calls, where the virtual device saw them
    weights: frozenset[tuple[int, ...]] = frozenset()  # the shapes of parameters and buffers
    alike: frozenset[int] = frozenset()  # which of the other releases it is about too, by their places
