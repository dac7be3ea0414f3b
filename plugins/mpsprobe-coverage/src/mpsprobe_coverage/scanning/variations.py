"""What makes a workload need less memory, each as it is switched on; what that saves is found by running it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib import import_module
from typing import Any, NamedTuple

import torch

from mpsprobe.errors import UsageError
from mpsprobe.protocols import RunOptions, TorchRun

AS_IT_IS, ACCUMULATION, EIGHT_BITS = "as it is", "gradient accumulation", "8-bit AdamW"
NOTES = {  # what to know of the figures of a way
    ACCUMULATION: "of each pass; any number of passes makes up a batch",
    EIGHT_BITS: "run as it is written; where torch.compile works, it fuses the update and makes fewer tensors",
}
_CHECKPOINTING = (  # methods of models that switch it on
    "activation_checkpointing_enable",  # of transformers from 5 on
    "gradient_checkpointing_enable",  # of transformers before that
    "enable_gradient_checkpointing",  # of diffusers
    "set_grad_checkpointing",  # of timm
)


class Variation(NamedTuple):
    """A way to run a workload: with these options, and what was built from them changed, or a ``UsageError``."""

    what: str
    options: RunOptions
    change: Callable[[TorchRun], None] = lambda run: None


def variations(options: RunOptions, run: TorchRun) -> Iterator[Variation]:
    """What may need less than the workload as it is, which was built as ``run``."""
    training = options.phase == "training"
    if options.dtype == "float32":
        if not training:
            yield Variation("float16", replace(options, dtype="float16"))
        yield Variation("bfloat16", replace(options, dtype="bfloat16"))
    if training:
        if options.autocast is None:
            yield Variation("autocast to float16", replace(options, autocast="float16"))
        yield Variation("gradient checkpointing", options, _checkpoint)
        if (run.batch_size or 1) > 1 and options.grad_accum == 1:
            half = (run.batch_size or 1) // 2
            yield Variation(ACCUMULATION, replace(options, grad_accum=2, batch_size=half))
        yield Variation(EIGHT_BITS, options, _eight_bits)
        yield Variation("SGD, which keeps no state", options, _sgd)
        if not options.lora:
            yield Variation(f"LoRA of rank {options.lora_rank}", replace(options, lora=True))
    if any(hasattr(module, "set_attention_slice") for module in run.model.modules()):
        yield Variation("attention slicing", options, _slice_attention)


def _checkpoint(run: TorchRun) -> None:
    name = next((name for name in _CHECKPOINTING if getattr(run.model, name, None) is not None), None)
    if name is None:
        raise UsageError("the model has no switch for it")
    named: dict[str, Any] = {}
    if name.endswith("checkpointing_enable"):
        named = {f"{name.removesuffix('_enable')}_kwargs": {"use_reentrant": False}}
    try:
        getattr(run.model, name)(**named)
    except ValueError as error:  # transformers: the class does not support it
        raise UsageError(str(error)) from error


def _parameters(model: torch.nn.Module) -> list[torch.nn.Parameter]:
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def _sgd(run: TorchRun) -> None:
    run.optimizer = lambda model: torch.optim.SGD(_parameters(model), lr=1e-3)


def _eight_bits(run: TorchRun) -> None:
    try:
        optim = import_module("torchao.optim")
    except ImportError as error:
        why = "torchao, whose AdamW8bit is made of PyTorch's own operators, is not installed"
        raise UsageError(why) from error
    run.optimizer = lambda model: optim.AdamW8bit(_parameters(model))


def _slice_attention(run: TorchRun) -> None:
    for module in [run.model] if hasattr(run.model, "set_attention_slice") else run.model.children():
        if hasattr(module, "set_attention_slice"):
            module.set_attention_slice("auto")
