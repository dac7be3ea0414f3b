"""Training by LoRA: a model's own parameters are frozen, and small matrices next to its linear layers are trained."""

from __future__ import annotations

import warnings
from typing import Any

from mpsprobe.errors import MissingPackage, WorkloadError
from mpsprobe.protocols import RunOptions
from mpsprobe.suggestions import in_short, printable


def with_adapters(name: str, model: Any, options: RunOptions) -> Any:
    """``model``, or what peft makes of it if ``options`` ask for LoRA.

    Every linear layer but a language model's head gets an adapter, as peft has it for ``target_modules="all-linear"``.
    Next to weights in float16 or bfloat16 adapters are in float32 (its ``autocast_adapter_dtype``).

    Raises:
        MissingPackage: peft is not installed.
        WorkloadError: the model has no linear layer, or peft cannot adapt it.
    """
    if not options.lora:
        return model
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError as error:
        raise MissingPackage("--lora", "peft") from error
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the libraries' own deprecations and initial values
        try:
            adapted = get_peft_model(model, LoraConfig(r=options.lora_rank, target_modules="all-linear"))
        except Exception as error:  # whatever peft finds that it cannot adapt
            linear = any(type(one).__name__ in ("Linear", "Conv1D") for one in model.modules())
            why = in_short(error) if linear else "it has no linear layers"
            raise WorkloadError(
                f"'{printable(name)}' ({type(model).__name__}) cannot be trained by LoRA: {why}", "Leave out --lora."
            ) from error
    return adapted.train(model.training)
