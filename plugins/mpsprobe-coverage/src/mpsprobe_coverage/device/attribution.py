"""Whose call is it: the module and the source line behind an operator call, in backward too.

In the forward pass the innermost module whose ``__call__`` is running owns the call, and the line is
the innermost one outside torch and mpsprobe. In the backward pass no module runs: there the call
belongs to the module and line whose forward made the autograd node, found by the node's sequence
number (``torch.autograd._get_sequence_nr`` before, ``Node._sequence_nr()`` after).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, NamedTuple

import torch

from mpsprobe import stepping

_get_sequence_nr: Callable[[], int] = torch.autograd._get_sequence_nr  # type: ignore[attr-defined]
_current_node: Callable[[], Any] = torch._C._current_autograd_node
_INTERNAL = (
    os.path.dirname(torch.__file__) + os.sep,  # noqa: PTH120 - compared with co_filename, a plain string
    os.path.dirname(os.path.dirname(__file__)) + os.sep,  # noqa: PTH120
)
# Above its frames is the program that scans, not the one that is scanned.
_SCANNER = stepping.__file__


class Origin(NamedTuple):
    """``module`` is the qualified name ("" for the root, None outside every module); ``line`` 0 means unknown."""

    module: str | None
    file: str | None
    line: int


NOWHERE = Origin(None, None, 0)


class Attribution:
    """Follows modules and autograd nodes while it is open (``with``)."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._stack: list[str | None] = []
        self._origins: list[Origin] = []
        self._first_sequence_nr = 0
        self._internal: dict[str, bool] = {}
        self.in_backward = False
        self.deepest_module: str | None = None  # where the first exception to leave a module was raised

    def name_modules(self, model: torch.nn.Module) -> None:
        """Take the names of ``model``'s modules; a module that occurs twice keeps its first name."""
        self._model = model  # keeps the ids alive
        self._names = {id(module): name for name, module in model.named_modules()}

    def __enter__(self) -> Attribution:
        stack = self._stack
        original: Any = torch.nn.Module.__call__

        def call(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
            stack.append(self._names.get(id(module)) if id(module) in self._names else (stack[-1] if stack else None))
            try:
                return original(module, *args, **kwargs)
            except Exception:
                if self.deepest_module is None:
                    self.deepest_module = stack[-1]
                raise
            finally:
                stack.pop()

        self._original_call = original
        torch.nn.Module.__call__ = call  # type: ignore[method-assign]
        return self

    def __exit__(self, *_exc: object) -> None:
        torch.nn.Module.__call__ = self._original_call  # type: ignore[method-assign]

    def current(self) -> Origin:
        """The origin of the operator call that is being dispatched now."""
        if self._stack or not self.in_backward:
            file, line = self._line(sys._getframe(1))
            origin = Origin(self._stack[-1] if self._stack else None, file, line)
            nodes = _get_sequence_nr() - self._first_sequence_nr
            if nodes > len(self._origins):
                self._origins.extend([origin] * (nodes - len(self._origins)))
            return origin
        node = _current_node()
        if node is None:
            return NOWHERE
        position = node._sequence_nr() - self._first_sequence_nr
        return self._origins[position] if 0 <= position < len(self._origins) else NOWHERE

    def mark(self, tensor: Any) -> None:
        """Write the line that runs now into ``tensor``, as the one that made it, if nothing else did."""
        if not hasattr(tensor, "made_at"):
            file, line = self._line(sys._getframe(1))
            if file is not None:
                tensor.made_at = (file, line)

    def is_internal(self, file: str) -> bool:
        """Whether ``file`` is torch's or mpsprobe's own (or generated code without a file)."""
        known = self._internal.get(file)
        if known is None:
            known = self._internal[file] = file.startswith(_INTERNAL) or file.startswith("<")
        return known

    def _line(self, frame: FrameType | None) -> tuple[str | None, int]:
        internal = self._internal
        while frame is not None:
            name = frame.f_code.co_filename
            if name == _SCANNER:
                break
            if not (internal[name] if name in internal else self.is_internal(name)):
                return name, frame.f_lineno
            frame = frame.f_back
        return None, 0
