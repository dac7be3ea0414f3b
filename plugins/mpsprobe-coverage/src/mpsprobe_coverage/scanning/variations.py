"""What makes a workload need less memory, each as it is switched on; what that saves is found by running it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import torch

from mpsprobe.errors import UsageError
from mpsprobe.protocols import RunOptions, TorchRun

AS_IT_IS, ACCUMULATION, EIGHT_BITS = "as it is", "gradient accumulation", "8-bit AdamW"
NOTES = {
    ACCUMULATION: "of each pass; any number of passes makes up a batch",
    EIGHT_BITS: "run as it is written; where torch.compile works, it fuses the update and makes fewer tensors",
}
"""What to know of the figures of a way."""
_CHECKPOINTING = (
    "activation_checkpointing_enable",
    "gradient_checkpointing_enable",
    "enable_gradient_checkpointing",
    "set_grad_checkpointing",
)
"""Methods of models that switch it on: of transformers (from 5 on, and before), of diffusers, of timm."""


def _nothing(run: TorchRun) -> None:
    del run


@dataclass(frozen=True, slots=True)
class Variation:
    """A way to run a workload.

    Attributes:
        what: its name.
        options: what is asked for.
        change: changes what was built from them. Raises ``UsageError`` where that cannot be.
    """

    what: str
    options: RunOptions
    change: Callable[[TorchRun], None] = _nothing


def variations(options: RunOptions, run: TorchRun) -> Iterator[Variation]:
    """The workload as it is, which was built as ``run``, then what may need less."""
    yield Variation(AS_IT_IS, options)
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
    if any(hasattr(one, "set_attention_slice") for one in run.model.modules()):
        yield Variation("attention slicing", options, _slice_attention)


def _checkpoint(run: TorchRun) -> None:
    for name in _CHECKPOINTING:
        switch = getattr(run.model, name, None)
        if switch is not None:
            named: dict[str, Any] = {}
            if name.endswith("checkpointing_enable"):
                named = {f"{name.removesuffix('_enable')}_kwargs": {"use_reentrant": False}}
            try:
                switch(**named)
            except ValueError as error:  # transformers: the class does not support it
                raise UsageError(str(error)) from error
            return
    raise UsageError("the model has no switch for it")


def _sgd(run: TorchRun) -> None:
    run.optimizer = lambda model: torch.optim.SGD([one for one in model.parameters() if one.requires_grad], lr=1e-3)


def _eight_bits(run: TorchRun) -> None:
    try:
        optim = import_module("torchao.optim")
    except ImportError as error:
        why = "torchao, whose AdamW8bit is made of PyTorch's own operators, is not installed"
        raise UsageError(why) from error
    run.optimizer = lambda model: optim.AdamW8bit([one for one in model.parameters() if one.requires_grad])


def _slice_attention(run: TorchRun) -> None:
    for one in run.model.children() if not hasattr(run.model, "set_attention_slice") else [run.model]:
        if hasattr(one, "set_attention_slice"):
            one.set_attention_slice("auto")
