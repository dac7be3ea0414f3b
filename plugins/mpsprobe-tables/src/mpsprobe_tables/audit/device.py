"""The virtual device for an audit: what is called is kept in short, and nobody asks which line of a model called it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from mpsprobe_coverage.device import VirtualDevice
from mpsprobe_coverage.device.attribution import NOWHERE, Attribution, Origin
from mpsprobe_coverage.device.interception import Interception
from mpsprobe_coverage.device.plan import Plan
from mpsprobe_coverage.device.recorder import Recorder
from mpsprobe_coverage.device.refusal import Refusal
from mpsprobe_coverage.device.refusals import Call, Lists, Rule, rules_for
from mpsprobe_coverage.device.refusals.signatures import flags_of
from mpsprobe_coverage.device.tensor import TensorSpec
from mpsprobe_coverage.kernels.table import KernelTable
from mpsprobe_tables.audit.samples import is_for_mps

SHADOW_LIMIT = 2**12  # elements: samples are small, and only indices, masks and lengths are ever read
REFUSING = frozenset({"missing", "unsupported"})


@dataclass(frozen=True, slots=True)
class Seen:
    """Calls of one operator that agree in all of this; shapes are left out.

    Attributes:
        verdict: that of the call: ``native``, ``missing`` and so on.
        reason: why it is not native, if it is not.
        source: what the reason rests on (``message``, ``dtype``, ``lists``, …); None where the registration says it.
        phase: ``samples``, ``forward`` or ``backward``.
        inputs, outputs: names of the dtypes of its tensors, in order.
        flags: arguments that choose a way (``device/refusals/signatures.py``), if the device notes them.
    """

    operator: str
    verdict: str
    reason: str | None
    source: str | None
    phase: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    flags: tuple[str, ...] = ()

    @property
    def refuses(self) -> bool:
        """Whether a Mac raises here."""
        return self.verdict in REFUSING


class ShortRecorder(Recorder):
    """Keeps ``Seen`` calls until ``take`` is asked for them.

    Attributes:
        judged: the operator that is judged at the moment, and its flags.
    """

    def __init__(self) -> None:
        super().__init__()
        self.judged: tuple[str, tuple[str, ...]] = ("", ())
        self._seen: dict[tuple[Any, ...], str | None] = {}

    def call(
        self,
        operator: str,
        verdict: str,
        reason: str | None,
        origin: Origin,
        inputs: tuple[TensorSpec, ...],
        outputs: tuple[TensorSpec, ...],
    ) -> None:
        # A reason may say sizes: they are told apart by their sources, and the first of each stays to be shown.
        sources = tuple(getattr(one, "source", None) for one in _each(reason))
        dtypes = tuple(spec.dtype for spec in inputs), tuple(spec.dtype for spec in outputs)
        flags = self.judged[1] if self.judged[0] == operator else ()
        self._seen.setdefault((operator, verdict, sources, self.phase, *dtypes, flags), reason)

    def unjudged(self, operator: str, reason: str, origin: Origin) -> None:
        """Nothing of it is shown: a call without a verdict is recorded as ``unknown`` too."""

    def assumed(self, operator: str, value: str, origin: Origin) -> None:
        """Nothing of it is shown."""

    def take(self) -> tuple[Seen, ...]:
        """What was called since the last time, each kind of call once."""
        return self.take_both()[0]

    def take_both(self) -> tuple[tuple[Seen, ...], tuple[Seen, ...]]:
        """The same, as judged by the device's lists and by those beside them."""
        seen, self._seen = self._seen, {}
        found: tuple[list[Seen], list[Seen]] = ([], [])
        for (operator, verdict, _, phase, inputs, outputs, flags), reason in seen.items():
            for into, one in zip(found, _each(reason), strict=True):
                judged = "native" if one is None and isinstance(reason, _Parted) else verdict
                source = getattr(one, "source", None)
                into.append(Seen(operator, judged, _plain(one), source, phase, _names(inputs), _names(outputs), flags))
        return tuple(found[0]), tuple(found[1])


class _Parted(Refusal):
    """A refusal with one set of rules, and what another set says to the same call."""

    by: tuple[Refusal | None, Refusal | None]


class _BothRules:
    """Rules of two sets, asked at once: everything else about a run is the same."""

    dtypes = None

    def __init__(self, first: tuple[Rule, ...], second: tuple[Rule, ...]) -> None:
        self.sets = first, second

    def __call__(self, call: Call) -> Refusal | None:
        first, second = (next((one for one in (rule(call) for rule in rules) if one), None) for rules in self.sets)
        told = first or second
        if told is None or first == second:
            return told
        parted = _Parted(told, told.accepted_since, source=told.source, evidence=told.evidence)
        parted.by = first, second
        return parted


class _Noting(Interception):
    """Tells the recorder with which flags an operator is called that is judged."""

    def call(self, plan: Plan, args: Any, kwargs: Any) -> Any:
        with self._judging(plan, args, kwargs):
            return super().call(plan, args, kwargs)

    def leaf(self, plan: Plan, args: Any, kwargs: Any, refused: str | None = None, verdict: str | None = None) -> Any:
        with self._judging(plan, args, kwargs):
            return super().leaf(plan, args, kwargs, refused, verdict)

    @contextmanager
    def _judging(self, plan: Plan, args: Any, kwargs: Any) -> Iterator[None]:
        recorder = self.recorder
        assert isinstance(recorder, ShortRecorder)
        before, recorder.judged = recorder.judged, (plan.name, flags_of(plan.func, args, kwargs))
        try:
            yield
        finally:
            recorder.judged = before


class AuditDevice(VirtualDevice):
    """A virtual device that is used for thousands of small runs. Arguments are those of ``VirtualDevice``.

    Args:
        lists: which of PyTorch's lists are a source beside the mechanism.
        beside: other lists to judge by in the same run.
        note_flags: tell calls apart by their flags too.
    """

    def __init__(
        self,
        table: KernelTable,
        *,
        lists: Lists = "none",
        beside: Lists | None = None,
        note_flags: bool = False,
        **options: Any,
    ) -> None:
        if note_flags:
            self._interception_type = _Noting
        super().__init__(table, lists=lists, **options)
        self.short = ShortRecorder()
        self.recorder = self._interception.recorder = self.short
        self.attribution = self._interception.attribution = _Unattributed()
        if beside is not None:
            first, second = self._interception._rules, rules_for(table, beside)
            both = {name: (_BothRules(first.get(name, ()), second.get(name, ())),) for name in {*first, *second}}
            self._interception._rules = both

    def __enter__(self) -> AuditDevice:
        super().__enter__()
        return self

    def sample(self, sample: Any) -> Any:
        """An OpInfo sample with those of its tensors on the device that a sampler asks for there.

        Raises:
            NotStrided: one is sparse.
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


def _each(reason: str | None) -> tuple[str | None, str | None]:
    return reason.by if isinstance(reason, _Parted) else (reason, reason)


def _names(dtypes: tuple[Any, ...]) -> tuple[str, ...]:
    return tuple(str(dtype).removeprefix("torch.") for dtype in dtypes)


def _plain(reason: Any) -> str | None:
    return None if reason is None else str.__str__(reason)
