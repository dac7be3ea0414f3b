"""The virtual device for an audit: what is called is kept in short, and nobody asks which line of a model called it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from mpsprobe_coverage.audit.samples import is_for_mps
from mpsprobe_coverage.device import VirtualDevice
from mpsprobe_coverage.device.attribution import NOWHERE, Attribution, Origin
from mpsprobe_coverage.device.recorder import Recorder
from mpsprobe_coverage.device.tensor import TensorSpec

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
    """

    operator: str
    verdict: str
    reason: str | None
    source: str | None
    phase: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    @property
    def refuses(self) -> bool:
        """Whether a Mac raises here."""
        return self.verdict in REFUSING


class ShortRecorder(Recorder):
    """Keeps ``Seen`` calls until ``take`` is asked for them."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: dict[tuple[Any, ...], None] = {}

    def call(
        self,
        operator: str,
        verdict: str,
        reason: str | None,
        origin: Origin,
        inputs: tuple[TensorSpec, ...],
        outputs: tuple[TensorSpec, ...],
    ) -> None:
        # A reason may say sizes, so reasons are told apart by source alone until there is one to be shown.
        source = getattr(reason, "source", None)
        dtypes = tuple(spec.dtype for spec in inputs), tuple(spec.dtype for spec in outputs)
        self._seen.setdefault((operator, verdict, source, self.phase, *dtypes), reason)  # type: ignore[arg-type]

    def unjudged(self, operator: str, reason: str, origin: Origin) -> None:
        """Nothing of it is shown: a call without a verdict is recorded as ``unknown`` too."""

    def assumed(self, operator: str, value: str, origin: Origin) -> None:
        """Nothing of it is shown."""

    def take(self) -> Iterator[Seen]:
        """What was called since the last time, each kind of call once."""
        seen, self._seen = self._seen, {}
        for (operator, verdict, source, phase, inputs, outputs), reason in seen.items():
            yield Seen(operator, verdict, _plain(reason), source, phase, _names(inputs), _names(outputs))


class AuditDevice(VirtualDevice):
    """A virtual device that is used for thousands of small runs. Arguments are those of ``VirtualDevice``."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.short = ShortRecorder()
        self.recorder = self._interception.recorder = self.short
        self.attribution = self._interception.attribution = _Unattributed()

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


def _names(dtypes: tuple[Any, ...]) -> tuple[str, ...]:
    return tuple(str(dtype).removeprefix("torch.") for dtype in dtypes)


def _plain(reason: Any) -> str | None:
    return None if reason is None else str.__str__(reason)
