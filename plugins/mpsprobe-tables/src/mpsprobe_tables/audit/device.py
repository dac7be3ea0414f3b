"""The virtual device for an audit: what is called is kept in short, and nobody asks which line of a model called it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from mpsprobe_coverage.devices.virtual import VirtualDevice
from mpsprobe_coverage.devices.virtual.interception import Interception
from mpsprobe_coverage.knowledge.calls.spec import TensorSpec
from mpsprobe_coverage.knowledge.judging.chain import Chain
from mpsprobe_coverage.knowledge.judging.judgement import Judgement
from mpsprobe_coverage.knowledge.judging.lists import Lists
from mpsprobe_coverage.knowledge.judging.signatures import flags_of
from mpsprobe_coverage.knowledge.kernels.table import KernelTable
from mpsprobe_coverage.recording.attribution import NOWHERE, Attribution, Origin
from mpsprobe_coverage.recording.dispatch import Plan
from mpsprobe_coverage.recording.recorder import Recorder
from mpsprobe_tables.audit.procedure import is_for_mps

SHADOW_LIMIT = 2**12  # elements: samples are small, and only indices, masks and lengths are ever read
REFUSING = frozenset({"missing", "unsupported"})


@dataclass(frozen=True, slots=True)
class Seen:
    """Calls of one operator that agree in all of this; shapes are left out."""

    operator: str
    verdict: str  # that of the call: ``native``, ``missing`` and so on
    reason: str | None  # why it is not native, if it is not
    # What the verdict rests on (``registration``, ``message``, ``list``, …); None if nothing is known.
    source: str | None
    phase: str  # ``samples``, ``forward`` or ``backward``
    # inputs, outputs: names of the dtypes of its tensors, in order
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    flags: tuple[str, ...] = ()  # arguments that choose a way (``judging/signatures.py``), if the device notes them

    @property
    def refuses(self) -> bool:
        """Whether a Mac raises here."""
        return self.verdict in REFUSING


class ShortRecorder(Recorder):
    """Keeps ``Seen`` calls until ``take`` is asked for them.

    Attributes:
        flags_of_judged: the operator that is judged at the moment, and its flags.
    """

    def __init__(self) -> None:
        super().__init__()
        self.flags_of_judged: tuple[str, tuple[str, ...]] = ("", ())
        self._seen: dict[tuple[Any, ...], tuple[Judgement, Judgement]] = {}

    def call(
        self,
        operator: str,
        judgement: Judgement,
        origin: Origin,
        inputs: tuple[TensorSpec, ...],
        outputs: tuple[TensorSpec, ...],
        composed_by: str | None = None,
        calls: int = 1,
    ) -> None:
        # A reason may say sizes: their sources separate them, and the first of each is kept to be shown.
        other = judgement.others[0] if judgement.others else judgement
        sources = judgement.verdict, judgement.source, other.verdict, other.source
        dtypes = tuple(spec.dtype for spec in inputs), tuple(spec.dtype for spec in outputs)
        flags = self.flags_of_judged[1] if self.flags_of_judged[0] == operator else ()
        self._seen.setdefault((operator, sources, self.phase, *dtypes, flags), (judgement, other))

    def unjudged(self, operator: str, reason: str, origin: Origin, calls: int = 1) -> None:
        """Nothing of it is shown: a call without a verdict is recorded as ``unknown`` too."""

    def assumed(self, operator: str, value: str, origin: Origin) -> None:
        """Nothing of it is shown."""

    def take(self) -> tuple[Seen, ...]:
        """What was called since the last time, each kind of call once."""
        return self.take_both()[0]

    def take_both(self) -> tuple[tuple[Seen, ...], tuple[Seen, ...]]:
        """The same, as judged by the device's lists and by the other ones."""
        seen, self._seen = self._seen, {}
        both: tuple[list[Seen], list[Seen]] = ([], [])
        for (operator, _, phase, inputs, outputs, flags), judgements in seen.items():
            for into, judgement in zip(both, judgements, strict=True):
                by = judgement.verdict, judgement.reason, judgement.source
                into.append(Seen(operator, *by, phase, _names(inputs), _names(outputs), flags))
        return tuple(both[0]), tuple(both[1])


class _Noting(Interception):
    """Notes with which flags an operator is called that is judged."""

    def call(self, plan: Plan, args: Any, kwargs: Any) -> Any:
        with self._judging(plan, args, kwargs):
            return super().call(plan, args, kwargs)

    def leaf(self, plan: Plan, args: Any, kwargs: Any, raised: str | None = None) -> Any:
        with self._judging(plan, args, kwargs):
            return super().leaf(plan, args, kwargs, raised)

    @contextmanager
    def _judging(self, plan: Plan, args: Any, kwargs: Any) -> Iterator[None]:
        recorder = self.recorder
        assert isinstance(recorder, ShortRecorder)
        before = recorder.flags_of_judged
        recorder.flags_of_judged = plan.name, flags_of(plan.func, args, kwargs)
        try:
            yield
        finally:
            recorder.flags_of_judged = before


class AuditDevice(VirtualDevice):
    """A virtual device that is used for thousands of small runs. Other arguments are those of ``VirtualDevice``.

    Args:
        lists: which of PyTorch's lists are a source in addition to the mechanism.
        other: other lists to judge by in the same run.
        note_flags: tell calls apart by their flags too.
    """

    def __init__(
        self,
        table: KernelTable,
        *,
        lists: Lists = "none",
        other: Lists | None = None,
        note_flags: bool = False,
        **options: Any,
    ) -> None:
        if note_flags:
            self._interception_type = _Noting
        others = () if other is None else (Chain(table, lists=other),)
        super().__init__(Chain(table, lists=lists, others=others), **options)
        self.short = ShortRecorder()
        self.recorder = self._interception.recorder = self.short
        self.attribution = self._interception.attribution = _Unattributed()

    def __enter__(self) -> AuditDevice:
        super().__enter__()
        return self

    def sample(self, sample: Any) -> Any:
        """An OpInfo sample with those of its tensors on the device that a sampler asks for there.

        Raises NotStrided: one is sparse.
        """
        self._wrapper._made.clear()  # samples come and go, and ids of tensors with them
        return sample.transform(lambda value: self._wrapper.tensor(value) if is_for_mps(value) else value)


class _Unattributed(Attribution):
    def __enter__(self) -> Attribution:
        return self

    def __exit__(self, *_exc: object) -> None:
        pass

    def current(self) -> Origin:
        return NOWHERE


def _names(dtypes: tuple[Any, ...]) -> tuple[str, ...]:
    return tuple(str(dtype).removeprefix("torch.") for dtype in dtypes)
