"""Models and functions that a program hands over: ``mpsprobe.coverage(model)``."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from mpsprobe.errors import UsageError
from mpsprobe.protocols import RunOptions
from mpsprobe_tensorflow import models
from mpsprobe_tensorflow.names import FRAMEWORK

IN_A_FILE = "To judge training, build it in a function, which may be named as path/to/file.py:function."


def given(model: object, inputs: object) -> GivenWorkload | None:
    """The workload of a Keras model or a function of TensorFlow, ``None`` for everything else."""
    keras, tensorflow = sys.modules.get("keras"), sys.modules.get("tensorflow")
    is_model = keras is not None and isinstance(model, keras.Model)
    is_function = tensorflow is not None and hasattr(model, "get_concrete_function")
    return GivenWorkload(model, inputs) if is_model or is_function else None


class GivenWorkload:
    """A model as it is: it is traced, and not changed."""

    framework = FRAMEWORK

    def __init__(self, model: Any, inputs: Any) -> None:
        self.name = str(getattr(model, "name", None) or getattr(model, "__name__", None) or type(model).__name__)
        self._made = model if inputs is None else (model, inputs)

    def build(self, options: RunOptions) -> Any:
        """The model, with its inputs if the program has some.

        Raises:
            UsageError: its training is asked for, which would make variables of its optimizer.
        """
        models.check(options, self.name)
        if options.phase == "training":
            raise UsageError("the training of a program's own model would change its optimizer", IN_A_FILE)
        return self._made

    def describe(self) -> Mapping[str, Any]:
        """Nothing is known of it without looking into it."""
        return {}
