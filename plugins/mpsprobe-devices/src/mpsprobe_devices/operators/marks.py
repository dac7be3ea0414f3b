"""Tells a recorder when modules, optimizers and steps begin and end. Nothing stays behind.

Calls of modules are seen by putting a function around ``torch.nn.Module.__call__``, as ``torch.fx`` does while it
traces. Hooks would not do: ``nn.TransformerEncoderLayer`` and ``nn.MultiheadAttention`` take another path as soon as a
module of theirs has one; global hooks leave them alone, but send each call through the slower half of
``Module._call_impl``, and make three times the cost of a mark.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from mpsprobe_devices.operators.recording import STEP_MARK, UPDATE_MARK

COMPILED = (
    "something was compiled in this process, and marking modules would compile it again: modules are not separated"
)
Mark = AbstractContextManager[Any]
"""An interval that the recorder sees: ``_RecordFunctionFast``, or the slow mode's own."""


class Marks:
    """Marks calls of the modules of ``model``, if it has some, updates of optimizers, and steps, or ``only_steps``.

    ``make`` makes the mark of a module's number, of ``STEP_MARK`` or of ``UPDATE_MARK``.
    """

    def __init__(self, make: Callable[[int], Mark], model: Any, *, only_steps: bool = False) -> None:
        self._make = make
        self._only_steps = only_steps
        self._handles: list[Any] = []
        self._open: list[Mark] = []  # a step, and updates in it
        self._original: Callable[..., Any] | None = None
        self._called: Callable[..., Any] | None = None
        self.steps = 0  # that came to their end
        self.caveats: list[str] = []
        named = list(model.named_modules()) if isinstance(model, torch.nn.Module) and not only_steps else []
        if named and compiled():
            named, self.caveats = [], [COMPILED]
        self._kept = [module for _, module in named]  # so that no other module can get the id of one of them
        self._numbers = {id(module): number for number, module in enumerate(self._kept)}
        self.modules = [(path, type(module).__name__) for path, module in named]  # by their numbers

    def start(self) -> None:
        if self.modules:
            self._see_modules()
        if not self._only_steps:
            self._handles.append(register_optimizer_step_pre_hook(lambda *_: self._enter(UPDATE_MARK)))
            self._handles.append(register_optimizer_step_post_hook(self._leave_update))
        self._enter(STEP_MARK)

    def next_step(self) -> None:
        self._leave_all()
        self.steps += 1
        self._enter(STEP_MARK)

    def stop(self) -> None:
        """Close what is open (a step that raised can leave an update) and take everything away."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._numbers.clear()  # if somebody kept the function around calls, it does nothing from now on
        self._kept.clear()
        if self._original is not None and torch.nn.Module.__call__ is self._called:
            torch.nn.Module.__call__ = self._original  # type: ignore[method-assign]
        self._original = self._called = None
        self._leave_all()

    def _see_modules(self) -> None:
        numbers, make, original = self._numbers, self._make, torch.nn.Module.__call__

        def called(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
            number = numbers.get(id(module))
            if number is None:
                return original(module, *args, **kwargs)
            with make(number):
                return original(module, *args, **kwargs)

        self._original, self._called = original, called
        torch.nn.Module.__call__ = called  # type: ignore[method-assign]

    def _enter(self, number: int) -> None:
        mark = self._make(number)
        mark.__enter__()
        self._open.append(mark)

    def _leave_update(self, *_: Any) -> None:
        if len(self._open) > 1:
            self._open.pop().__exit__(None, None, None)

    def _leave_all(self) -> None:
        while self._open:
            self._open.pop().__exit__(None, None, None)


def compiled() -> bool:
    """Whether dynamo has compiled anything: it looks at how modules are called, and would compile again."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    counters = getattr(dynamo, "counters", None)
    return bool(counters and counters["frames"].get("total"))
