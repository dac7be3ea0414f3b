"""``keras:NAME``: the models of ``keras.applications``, by the names of their functions in snake case."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

from mpsprobe.errors import UnknownName, UsageError
from mpsprobe.protocols import RunOptions
from mpsprobe_tensorflow import models, tracing
from mpsprobe_tensorflow.libraries import import_tensorflow
from mpsprobe_tensorflow.names import FRAMEWORK, SPACE


def known(needed_by: str) -> dict[str, Callable[..., Any]]:
    """Every function of ``keras.applications`` that makes a model, by name.

    Raises:
        MissingPackage: TensorFlow is not installed.
        WorkloadError: it cannot be imported.
    """
    import_tensorflow(needed_by)
    import keras

    functions = inspect.getmembers(keras.applications, inspect.isfunction)
    return {snake_case(name): function for name, function in functions}


def snake_case(name: str) -> str:
    """``MobileNetV2`` as ``mobilenet_v2``, ``EfficientNetV2B0`` as ``efficientnet_v2_b0``: versions and sizes apart."""
    sizes = r"(?:XLarge|(?<!X)Large|Small|Base|Tiny|Mobile|[SML])$"
    return re.sub(rf"(?<=.)(?=V\d|ResNet|B\d|{sizes})", "_", name).lower()


def plain(name: str) -> str:
    """What a name has in common with its other spellings: ``efficientnetb0``, ``EfficientNetB0``."""
    return re.sub(r"[_-]", "", name).lower()


class KerasWorkload:
    """One model of ``keras.applications`` with random weights that are never drawn."""

    framework = FRAMEWORK

    def __init__(self, name: str) -> None:
        self.name = name

    def build(self, options: RunOptions) -> Any:
        """The model, with variables that have no values.

        Raises:
            UnknownName: there is no such model.
            MissingPackage: TensorFlow is not installed.
            UsageError: an option that it cannot honour.
        """
        models.check(options, self.name)
        if options.size != "real" or options.seq_len is not None:
            flag = "--size" if options.size != "real" else "--seq-len"
            raise UsageError(f"a model of Keras has no {flag}", "Leave it out, or build one in a function of your own.")
        make = self._function()
        with models.policy(options), tracing.variables_without_values():
            return make(weights=None)

    def describe(self) -> Mapping[str, Any]:
        """The function that makes it."""
        make = self._function()
        return {"function": f"keras.applications.{make.__name__}", "documentation": inspect.getdoc(make) or ""}

    def _function(self) -> Callable[..., Any]:
        functions = known(f"the workload '{self.name}'")
        short = self.name.partition(":")[2]
        found = next((name for name in functions if plain(name) == plain(short)), None)
        if found is None:
            names = [f"{SPACE}:{one}" for one in functions]
            raise UnknownName("workload", self.name, names, "All of them: mpsprobe workloads list --keras")
        return functions[found]
