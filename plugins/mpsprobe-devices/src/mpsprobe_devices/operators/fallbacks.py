"""Operators that left MPS, as torch itself says: one warning for each call, with the operator's exact name.

``mps_fallback`` warns through TORCH_WARN_ONCE, which warns each time once ``torch.set_warn_always`` is on. The text
ends the same way in the macOS wheels of every release from 1.12 to 2.15. A warning reaches Python when the binding
returns through which C++ was entered: for what the backward pass calls that is its end. ``at_once`` is such a binding
around one call.
"""

from __future__ import annotations

import contextlib
import os
import re
import warnings
from collections.abc import Callable
from typing import Any

import torch

TEXT = (
    r"The operator '(?P<operator>[^']+)' is not currently \w+ ?on the MPS backend and will fall back to run on the CPU"
)
VARIABLE = "PYTORCH_ENABLE_MPS_FALLBACK"


class FallbackWarnings:
    """Catches these warnings, and only these, while it is entered; others go where they went before."""

    def __init__(self) -> None:
        self._caught: list[str] = []
        self._inside = contextlib.ExitStack()
        self._show: Callable[..., None] = warnings.showwarning

    def __enter__(self) -> FallbackWarnings:
        self._inside.callback(torch.set_warn_always, torch.is_warn_always_enabled())
        self._inside.enter_context(warnings.catch_warnings())
        self._show = warnings.showwarning
        warnings.filterwarnings("always", message=TEXT)
        warnings.showwarning = self._caught_or_shown
        torch.set_warn_always(True)
        return self

    def __exit__(self, *_: object) -> None:
        self._inside.close()

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
        call()


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
    try:
        return "fallback" if torch._C._dispatch_has_kernel_for_dispatch_key(operator, "MPS") else "missing"
    except RuntimeError:  # an operator that this process does not know
        return "missing"
