"""One operator call, as judges and advisories see it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from mpsprobe_coverage.knowledge.calls.spec import Specs, TensorSpec, spec_of


@dataclass(frozen=True, slots=True)
class Call:
    """An operator with its arguments, of whose tensors only the specs are asked.

    Attributes:
        func: the overload of the installed torch.
        inputs, outputs: specs of its tensor arguments (those in lists too) and of its results, in order.
        generator: one of the arguments is a random generator of the backend.
        cpu_generator: one is a generator of the CPU.
        raised: what its composite kernel raised for sparse arguments, if it did.
    """

    func: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    inputs: Specs
    outputs: Specs
    generator: bool = False
    cpu_generator: bool = False
    raised: str | None = None

    def argument(self, name: str) -> Any:
        """The argument that the schema calls ``name``, its default where the call leaves it out."""
        if name in self.kwargs:
            return self.kwargs[name]
        for position, argument in enumerate(self.func._schema.arguments):
            if argument.name == name:
                return self.args[position] if position < len(self.args) else argument.default_value
        raise KeyError(name)

    def spec(self, name: str) -> TensorSpec | None:
        """The spec of the tensor argument ``name``; None where the call has none."""
        value = self.argument(name)
        return spec_of(value) if isinstance(value, torch.Tensor) else None


Calls = Mapping[tuple[Any, str | None], Sequence[Call]]
"""Overload, and the dispatch key of its arguments where those are sparse → calls of it."""
