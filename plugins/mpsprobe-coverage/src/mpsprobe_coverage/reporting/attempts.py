"""A person's code that is tried: what it raises ends it, and belongs into the report."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from types import TracebackType

import torch

from mpsprobe.errors import MpsprobeError
from mpsprobe.schemas import RunFailure
from mpsprobe.suggestions import first_line, type_name
from mpsprobe_coverage.recording.attribution import Attribution, is_internal
from mpsprobe_coverage.recording.recorder import NotNative
from mpsprobe_coverage.reporting.findings import site


class Attempt:
    """A step of ``model`` runs inside (``with``), of which no gradients are left.

    Errors of mpsprobe, Ctrl-C and what ends a run on purpose go on; every other one is kept.

    Args:
        phase: which one runs now.

    Attributes:
        error: what ended it, with a traceback that holds what the step made; ``failure`` is the same in words.
    """

    error: BaseException | None = None
    failure: RunFailure | None = None

    def __init__(self, model: torch.nn.Module, attribution: Attribution, phase: Callable[[], str | None]) -> None:
        self._model, self._attribution, self._phase = model, attribution, phase

    def __enter__(self) -> Attempt:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: TracebackType | None) -> bool:
        for parameter in self._model.parameters():
            parameter.grad = None
        if error is None or isinstance(error, (MpsprobeError, NotNative, KeyboardInterrupt)):
            return False
        self.error = error
        self.failure = failure_of(error, self._phase() or "forward", self._attribution.deepest_module)
        return True


def failure_of(error: BaseException, phase: str, module: str | None) -> RunFailure:
    """``error``, which ``module`` raised, with the innermost line outside of torch and mpsprobe."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not is_internal(frame.filename)]
    name, message = type_name(error), first_line(error)
    return RunFailure(
        phase=phase,
        error=name,
        message="" if message == name else message,
        module=module,
        call_site=site(frames[-1].filename, frames[-1].lineno or 0) if frames else None,
    )
