"""Tells a recorder when modules, optimizers and steps begin and end. Nothing stays behind.

Modules are seen through torch's global module hooks, not through hooks of their own: ``nn.TransformerEncoderLayer`` and
``nn.MultiheadAttention`` take another path as soon as a module of theirs has a hook, and would be measured doing what
they otherwise do not do.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

STEP, OPTIMIZER = -1, -2
COMPILED = (
    "something was compiled in this process, and marking modules would compile it again: modules are not told apart"
)


class Mark(Protocol):
    """An interval that the recorder sees: ``_RecordFunctionFast``, ``record_function``, or the slow mode's own."""

    def __enter__(self) -> Any: ...

    def __exit__(self, *exc_info: object) -> Any: ...


class Marks:
    """Marks calls of the modules of ``model``, updates of optimizers, and steps.

    Args:
        make: makes the mark of a module's number, of ``STEP`` or of ``OPTIMIZER``.
        model: a ``torch.nn.Module``; with anything else there are no modules to mark.

    Attributes:
        modules: path and class name of each module, by its number.
    """

    def __init__(self, make: Callable[[int], Mark], model: Any) -> None:
        self._make = make
        self._local = threading.local()
        self._handles: list[Any] = []
        self._step: Mark | None = None
        self.caveats: list[str] = []
        named = list(model.named_modules()) if isinstance(model, torch.nn.Module) else []
        if named and compiled():
            named, self.caveats = [], [COMPILED]
        self._kept = [module for _, module in named]  # so that no other module can get the id of one of them
        self._numbers = {id(module): number for number, module in enumerate(self._kept)}
        self.modules = [(path, type(module).__name__) for path, module in named]

    def start(self) -> None:
        """Begin to mark, and the first step with it."""
        if self.modules:
            self._handles.append(register_module_forward_pre_hook(self._enter_module))
            self._handles.append(register_module_forward_hook(self._leave_module))
        self._handles.append(register_optimizer_step_pre_hook(lambda *_: self._enter(OPTIMIZER)))
        self._handles.append(register_optimizer_step_post_hook(lambda *_: self._leave(OPTIMIZER)))
        self._begin_step()

    def next_step(self) -> None:
        """A step is over, the next one begins."""
        self._end_step()
        self._begin_step()

    def stop(self) -> None:
        """Close what is open (a step that raised leaves calls of modules) and take every hook away."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        stack = self._stack()
        while stack:
            stack.pop()[1].__exit__(None, None, None)
        self._end_step()
        self._kept.clear()
        self._numbers.clear()

    def _begin_step(self) -> None:
        self._step = self._make(STEP)
        self._step.__enter__()

    def _end_step(self) -> None:
        if self._step is not None:
            self._step.__exit__(None, None, None)
            self._step = None

    def _enter_module(self, module: torch.nn.Module, _inputs: Any) -> None:
        number = self._numbers.get(id(module))
        if number is not None:
            self._enter(number)

    def _leave_module(self, module: torch.nn.Module, _inputs: Any, _output: Any) -> None:
        number = self._numbers.get(id(module))
        if number is not None:
            self._leave(number)

    def _enter(self, number: int) -> None:
        mark = self._make(number)
        mark.__enter__()
        self._stack().append((number, mark))

    def _leave(self, number: int) -> None:
        """Close ``number``, and first what was left open inside it by an error that somebody caught."""
        stack = self._stack()
        if not stack or (stack[-1][0] != number and all(opened != number for opened, _ in stack)):
            return
        while True:
            opened, mark = stack.pop()
            mark.__exit__(None, None, None)
            if opened == number:
                return

    def _stack(self) -> list[tuple[int, Mark]]:
        try:
            stack: list[tuple[int, Mark]] = self._local.stack
        except AttributeError:
            stack = self._local.stack = []
        return stack


def compiled() -> bool:
    """Whether dynamo has compiled anything: it guards on global hooks, and would compile again."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    counters = getattr(dynamo, "counters", None)
    return bool(counters and counters["frames"].get("total"))
