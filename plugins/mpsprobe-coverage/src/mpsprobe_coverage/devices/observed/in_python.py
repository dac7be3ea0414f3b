"""The observer where there is no C++ compiler: a dispatch mode of Python. Slower, and it sees less."""

from __future__ import annotations

import platform
from collections import Counter
from contextlib import ExitStack
from functools import cache
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from mpsprobe_coverage.devices.observed.kinds import Counted, Happened, Kind
from mpsprobe_coverage.knowledge.calls.keys import has_kernel, operator_name
from mpsprobe_coverage.knowledge.calls.spec import leaves, specs_in, tensors_in
from mpsprobe_coverage.knowledge.kernels.live import origin_of
from mpsprobe_coverage.knowledge.kernels.table import MPS, MPS_FALLBACK
from mpsprobe_coverage.recording.attribution import NOWHERE, Attribution
from mpsprobe_coverage.recording.phases import BACKWARD, optimizers_followed, phase_now

LIMITS = (
    "of other threads than the one that observes, only those of autograd are seen",
    "an operator that is made of others below autograd counts as one call",
    "gradients are added up with add, not add_, as under every dispatch mode",
    "bytes of fallbacks are those of the tensors passed and returned",
)
_COMPOSITE = ("CompositeImplicitAutograd", "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional")
_KEYS = {"cpu": "CPU", "cuda": "CUDA", "mps": MPS, "xpu": "XPU", "meta": "Meta"}


class ObserverInPython:
    """Satisfies ``Observer``. It is opened and closed on one thread, and sees that one.

    Args:
        why: it is not the one in C++.
    """

    def __init__(self, why: str) -> None:
        self.limits: tuple[str, ...] = (f"observed in Python: {why}", *LIMITS)
        self._calls: Counter[Kind] = Counter()
        self._moved: dict[Kind, tuple[int, int]] = {}
        self._attribution: Attribution | None = None
        self._optimizers = ExitStack()
        self._mode = _Mode(self)

    def start(self, attribution: Attribution | None) -> None:
        """See the calls of this thread, and where they are made."""
        self._attribution = attribution
        self._optimizers.enter_context(optimizers_followed())
        self._mode.__enter__()

    def stop(self) -> None:
        """See no more."""
        self._mode.__exit__(None, None, None)
        self._optimizers.close()

    def take(self) -> list[Counted]:
        """What was seen since the last time."""
        calls, moved = self._calls, self._moved
        self._calls, self._moved = Counter(), {}
        return [Counted(kind, number, *moved.get(kind, (0, 0))) for kind, number in calls.items()]

    def called(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run a call, and count it."""
        name = operator_name(func)
        given = tensors_in((args, kwargs))
        device = _device(given, leaves((args, kwargs)))
        origin = NOWHERE if self._attribution is None else self._attribution.current()
        inputs, phase, happened = specs_in(given), _phase(), _happened(name, device)
        try:
            result = func(*args, **kwargs)
        except Exception:
            self._calls[Kind(name, device, phase, origin, happened | Happened.RAISED, inputs, ())] += 1
            raise
        kind = Kind(name, device, phase, origin, happened, inputs, specs_in(result))
        self._calls[kind] += 1
        if Happened.FELL_BACK in happened:
            there, back = self._moved.get(kind, (0, 0))
            here = [tensor for tensor in given if tensor.device.type == device]
            there += sum(spec.nbytes for spec in specs_in(here))
            self._moved[kind] = there, back + sum(spec.nbytes for spec in kind.outputs or ())
        return result


class _Mode(TorchDispatchMode):
    def __init__(self, observer: ObserverInPython) -> None:
        super().__init__()
        self._observer = observer

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = kwargs or {}
        if getattr(func, "_schema", None) is None or func.namespace in ("profiler", "prim"):
            return func(*args, **named)
        if has_kernel(operator_name(func), _COMPOSITE[0]):  # in inference mode
            with self:
                result = func.decompose(*args, **named)
            if result is not NotImplemented:
                return result
        return self._observer.called(func, args, named)


def _phase() -> str:
    return BACKWARD if torch._C._current_graph_task_id() != -1 else phase_now()


def _device(given: list[torch.Tensor], others: list[Any]) -> str:
    types = [tensor.device.type for tensor in given]
    types += [] if types else [one.type for one in others if isinstance(one, torch.device)]
    return next((one for one in types if one != "cpu"), "cpu")


@cache
def _happened(name: str, device: str) -> Happened:
    """What the dispatcher says becomes of the operator: with no kernel, the fallback of the backend runs."""
    key = _KEYS.get(device, "PrivateUse1")
    if device == "mps" and origin_of(torch._C._dispatch_dump(name), MPS) == MPS_FALLBACK:
        return Happened.REGISTERED | Happened.FELL_BACK
    if any(has_kernel(name, one) for one in (key, *_COMPOSITE)):
        return Happened.REGISTERED
    return Happened.FELL_BACK if platform.system() == "Darwin" and device == "mps" else Happened(0)
