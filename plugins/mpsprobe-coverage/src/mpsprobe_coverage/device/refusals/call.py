"""One operator call as the rules see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from mpsprobe_coverage.device.refusal import Refusal
from mpsprobe_coverage.device.tensor import TensorSpec


@dataclass(frozen=True, slots=True)
class Call:
    """An operator with its arguments; tensors are virtual, so only their specs say something.

    Attributes:
        func: the overload.
        inputs, outputs: specs of its tensor arguments (those in lists too) and of its results, in order.
    """

    func: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]

    def argument(self, name: str) -> Any:
        """The argument that the schema calls ``name``, its default where the call leaves it out."""
        if name in self.kwargs:
            return self.kwargs[name]
        for position, argument in enumerate(self.func._schema.arguments):
            if argument.name == name:
                return self.args[position] if position < len(self.args) else argument.default_value
        raise KeyError(name)

    @property
    def dtype(self) -> torch.dtype | None:
        """The dtype of the first tensor argument, or of the first result of an operator without one."""
        specs = self.inputs or self.outputs
        return specs[0].dtype if specs else None


class Rule(Protocol):
    """What a kernel may refuse. A frozen dataclass with ``__call__``: equal rules refuse the same calls.

    Attributes:
        dtypes: a call none of whose tensors has one of these is never refused; None for a rule about something else.
    """

    @property
    def dtypes(self) -> frozenset[torch.dtype] | None: ...

    def __call__(self, call: Call) -> Refusal | None: ...


Rules = Mapping[str, tuple[Rule, ...]]
