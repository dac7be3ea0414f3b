"""Operators that left MPS, as torch itself says: one warning for each call, with the operator's exact name.

``mps_fallback`` warns through TORCH_WARN_ONCE, which warns each time once ``torch.set_warn_always`` is on. The text
ends the same way in the macOS wheels of every release from 1.12 to 2.15. A warning reaches Python when the binding
returns through which C++ was entered: for what the backward pass calls that is its end. ``at_once`` is such a binding
around one call.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable
from typing import Any

import torch

from mpsprobe.schemas import FallbackCost
from mpsprobe_devices.operators.events import Recording

TEXT = (
    r"The operator '(?P<operator>[^']+)' is not currently \w+ ?on the MPS backend and will fall back to run on the CPU"
)
VARIABLE = "PYTORCH_ENABLE_MPS_FALLBACK"


class FallbackWarnings:
    """Catches these warnings, and only these, between ``start`` and ``stop``; others go where they went before."""

    def __init__(self) -> None:
        self._caught: list[str] = []
        self._saved: Any = None
        self._always = False
        self._show: Callable[..., None] = warnings.showwarning

    def start(self) -> None:
        """Have torch warn at each call."""
        self._always = torch.is_warn_always_enabled()
        self._saved = warnings.catch_warnings()
        self._saved.__enter__()
        self._show = warnings.showwarning
        warnings.filterwarnings("always", message=TEXT)
        warnings.showwarning = self._caught_or_shown
        torch.set_warn_always(True)

    def stop(self) -> None:
        """Leave everything as it was."""
        if self._saved is not None:
            torch.set_warn_always(self._always)
            self._saved.__exit__(None, None, None)
            self._saved = None

    def take(self) -> list[str]:
        """The operators that warned since it was last asked."""
        taken = self._caught.copy()
        self._caught.clear()
        return taken

    def _caught_or_shown(self, message: Any, *where: Any, **more: Any) -> None:
        found = re.match(TEXT, str(message))
        if found is None:
            self._show(message, *where, **more)
        else:
            self._caught.append(found["operator"].removesuffix(".default"))


class _Binding(torch.autograd.Function):
    """Calls something; when it returns to Python, the warnings of C++ inside it have been given."""

    @staticmethod
    def forward(ctx: Any, call: Callable[[], None]) -> None:
        """Nothing that autograd could see."""
        del ctx
        call()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """Never called: the forward pass returns no tensor."""
        raise NotImplementedError


def at_once(call: Callable[[], None]) -> None:
    """Run ``call``, and give its warnings before returning. Whether gradients are recorded stays as it is."""
    enabled = torch.is_grad_enabled()

    def with_gradients() -> None:
        with torch.set_grad_enabled(enabled):
            call()

    _Binding.apply(with_gradients)


def verdict(operator: str) -> str:
    """``missing`` where only the environment variable let ``operator`` run, ``fallback`` where torch chose the CPU.

    An operator that falls back by itself has a kernel of its own for MPS, which copies; one that is missing has none.
    """
    if os.environ.get(VARIABLE, "0").strip() in ("", "0"):
        return "fallback"
    known = getattr(torch._C, "_dispatch_has_kernel_for_dispatch_key", None)
    try:
        return "fallback" if known is not None and known(operator, "MPS") else "missing"
    except RuntimeError:  # an operator that this process does not know
        return "missing"


def fallback_costs(recording: Recording) -> list[FallbackCost]:
    """What the operators of one step cost that warned, by operator; the dearest first."""
    sums: dict[str, list[int]] = {}
    for event in recording.of_complete_steps():
        if event.kind == "fallback" and event.detail is not None:
            found = sums.setdefault(event.detail["fallback"], [0, 0, 0])
            found[0] += 1
            found[1] += event.duration
            found[2] += int(event.detail["bytes"])
    steps = recording.complete_steps
    costs = [
        FallbackCost(
            operator=operator,
            calls=max(1, round(calls / steps)),
            method="observed",
            verdict=verdict(operator),
            duration_ns=round(spent / steps),
            bytes=round(size / steps),
        )
        for operator, (calls, spent, size) in sums.items()
    ]
    return sorted(costs, key=lambda cost: (-(cost.duration_ns or 0), cost.operator))
