"""``torchvision:NAME``: every model of ``torchvision.models.list_models()``, by its builder."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

from mpsprobe.errors import UnknownName
from mpsprobe.protocols import RunOptions, TorchRun
from mpsprobe_hf.vision.libraries import chosen_batch, import_library

ARGUMENTS: dict[str, Any] = {"weights": None, "weights_backbone": None, "aux_loss": True}
"""What a builder is called with, as far as it takes it: nothing is downloaded, and models of segmentation have their
auxiliary head, as the published ones do."""
DRAWN = {"googlenet": {"init_weights": False}, "inception_v3": {"init_weights": False}}
"""Without it these two warn that the random weights that they draw will be drawn in another way."""


class TorchvisionWorkload:
    """A model of torchvision with random weights. Satisfies ``mpsprobe.protocols.Workload``.

    Args:
        name: ``torchvision:NAME``; a name without prefix is that of a model too.

    Raises:
        MissingPackage: torchvision, or something that it needs, is not installed.
        UnknownName: torchvision has no such model.
        WorkloadError: torchvision cannot be imported.
    """

    framework = "torch"

    def __init__(self, name: str) -> None:
        self.name = name
        self._entry = name.rpartition(":")[2]
        self._models = import_library("torchvision.models", name)
        known = self._models.list_models()
        if self._entry not in known:
            raise UnknownName(
                "model of torchvision", self._entry, known, "torchvision.models.list_models() lists them."
            )
        self._builder = self._models.get_model_builder(self._entry)
        self._weights = self._models.get_model_weights(self._entry).DEFAULT

    @property
    def task(self) -> str:
        """The package of ``torchvision.models`` that it is in (``detection``, ``video``, …), or ``classification``."""
        rooms = self._builder.__module__.removeprefix(f"{self._models.__name__}.").split(".")
        return rooms[0] if len(rooms) > 1 else "classification"

    def describe(self) -> Mapping[str, Any]:
        """What its newest weights say about themselves."""
        meta = self._weights.meta
        return {
            "architecture": self._entry,
            "task": self.task,
            "checkpoint": str(self._weights),
            "parameters": meta.get("num_params"),
            "classes": len(meta.get("categories", ())) or None,
        }

    def build(self, options: RunOptions) -> TorchRun:
        """The model, and pictures or clips of the size that its weights were evaluated with.

        Raises UsageError: an option that it cannot honour.
        """
        from mpsprobe_hf.vision.tasks import TASKS, Case, with_real_weights

        task = TASKS[self.task]
        training = options.phase == "training"
        batch = chosen_batch(self.name, options, task.batch)

        import torch

        arguments = self._arguments(quantize=not training)
        with with_real_weights() if arguments.get("quantize") else nullcontext():
            model = self._builder(**arguments).train(training)
        dtype: torch.dtype = getattr(torch, options.dtype)
        case = Case(model.to(dtype), self._weights, batch, dtype, training)
        return TorchRun(
            model=model,
            args=task.inputs(case),
            architecture=type(model).__name__,
            loss=task.loss if training else None,
            batch_size=batch,
            notes=(task.trained,) if training else task.infers,
        )

    def _arguments(self, quantize: bool) -> dict[str, Any]:
        takes = inspect.signature(self._builder).parameters
        arguments = {name: value for name, value in {**ARGUMENTS, "quantize": quantize}.items() if name in takes}
        return {**arguments, **DRAWN.get(self._entry.removeprefix("quantized_"), {})}
