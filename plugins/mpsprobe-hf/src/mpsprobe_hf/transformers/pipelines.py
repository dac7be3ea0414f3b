"""Pipelines of transformers that a program hands over, as workloads."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from transformers import Pipeline

from mpsprobe.errors import UsageError
from mpsprobe.protocols import RunOptions, TorchRun


class PipelineWorkload:
    """``pipeline(inputs)``, from the text or picture to the answer, with its model on the device that judges it.

    Attributes:
        model: of the pipeline, which is put back as it was.
    """

    framework = "torch"

    def __init__(self, pipeline: Pipeline, inputs: object) -> None:
        self._pipeline = pipeline
        self.model: torch.nn.Module = pipeline.model
        self.name = f"{type(pipeline).__name__} of {type(self.model).__name__}"
        if inputs is None:
            raise UsageError(f"{type(pipeline).__name__} needs inputs", "Hand over what it is called with.")
        self._named = dict(inputs) if isinstance(inputs, Mapping) else {}
        self._inputs = () if self._named else inputs if isinstance(inputs, tuple) else (inputs,)

    @property
    def dtype(self) -> str:
        """The dtype of its model."""
        return str(self._pipeline.dtype).removeprefix("torch.")

    def describe(self) -> Mapping[str, Any]:
        """The task."""
        return {"task": self._pipeline.task}

    def build(self, options: RunOptions) -> TorchRun:
        """The model, and a call of the whole pipeline.

        Raises UsageError: it is on another device than the CPU, or has no training.
        """
        if self._pipeline.device.type != "cpu":
            raise UsageError(
                f"{self.name} is on {self._pipeline.device}",
                "Make it with device='cpu': it is put on a virtual device. What happens on this one, "
                "mpsprobe.observe() sees.",
            )
        if options.phase == "training":
            raise UsageError("a pipeline is not trained", "Hand over its model, with inputs that have labels.")
        for size in ("batch_size", "seq_len"):
            if getattr(options, size) is not None:
                flag = size.replace("_", "-")
                raise UsageError(f"the sizes of {self.name} are those of its inputs", f"Leave --{flag} out.")
        named, notes = self._named, []
        if getattr(self._pipeline, "_pipeline_calls_generate", False) and "max_new_tokens" not in named:
            named = {**named, "max_new_tokens": options.new_tokens}
            notes.append(f"generate() of {options.new_tokens} tokens")
        call = partial(_call, self._pipeline)
        return TorchRun(self.model.eval(), self._inputs, named, call=call, notes=notes)


def _call(pipeline: Any, model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """The pipeline puts what it has made of its inputs where it thinks that its model is."""
    before = pipeline.device
    pipeline.device = next((parameter.device for parameter in model.parameters()), before)
    try:
        return pipeline(*args, **kwargs)
    finally:
        pipeline.device = before
