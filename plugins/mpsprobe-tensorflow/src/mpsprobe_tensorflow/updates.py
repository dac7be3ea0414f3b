"""The optimizer's part of a training step, traced once for all variables that it updates in the same way.

It is half of the operations of a step. Keras' optimizers do the same for each variable; its shape and dtype alone
differ.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from typing import Any

ALIKE = frozenset({
    "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "Ftrl", "Lamb", "Lion", "Nadam", "RMSprop", "SGD",
})  # fmt: skip
"""The optimizers of ``keras.optimizers`` whose ``update_step`` looks at nothing else of a variable."""


class Updates:
    """What was traced once, and for how many variables."""

    def __init__(self) -> None:
        self._kinds: dict[object, tuple[int, int]] = {}
        self._counts: Counter[object] = Counter()

    def times(self, graph: Any) -> dict[str, int]:
        """Name of a node of ``graph`` → how often the step has it, where that is more than once."""
        operations = graph.get_operations()
        return {
            operation.name: self._counts[kind]
            for kind, (first, last) in self._kinds.items()
            if self._counts[kind] > 1
            for operation in operations[first:last]
        }

    @contextlib.contextmanager
    def once_for_each_kind(self, optimizer: Any) -> Iterator[None]:
        """``optimizer`` updates the first variable of each shape and dtype only; one that is not ``ALIKE`` all."""
        import tensorflow as tf

        kind = type(optimizer)
        if kind.__name__ not in ALIKE or not kind.__module__.startswith("keras.src.optimizers."):
            yield
            return
        original = optimizer.update_step

        def update_step(gradient: Any, variable: Any, learning_rate: Any) -> Any:
            key = (type(gradient), tuple(variable.shape), variable.dtype)
            self._counts[key] += 1
            if key in self._kinds:
                return None
            graph = tf.compat.v1.get_default_graph()
            first = len(graph.get_operations())
            made = original(gradient, variable, learning_rate)
            self._kinds[key] = first, len(graph.get_operations())
            return made

        optimizer.update_step = update_step
        try:
            yield
        finally:
            del optimizer.update_step
