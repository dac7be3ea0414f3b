"""A training step as diffusers' own training scripts take it: LoRA on the denoiser.

Facts, from ``train_text_to_image_lora.py``, ``train_dreambooth_lora_sdxl.py`` and ``train_dreambooth_lora_flux.py`` of
diffusers 0.42: the denoiser is frozen and gets adapters of rank 4 on the projections of its attention; they alone are
trained, in float32 where the model is in float16. The dreambooth scripts compute embeddings before the loop, and
latents too where they are asked to.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import torch

from mpsprobe.errors import MissingPackage, WorkloadError
from mpsprobe.protocols import RunOptions, TorchRun
from mpsprobe_diffusers.losses import Flow, Noise, difference, is_known, loss_for
from mpsprobe_diffusers.parts import part
from mpsprobe_diffusers.recipe import Recipe

RANK = 4
PROJECTIONS = ("to_k", "to_q", "to_v", "to_out.0")
"""The modules that the scripts put adapters on."""
TIMES = ("timestep", "t")
"""What denoisers call their timestep."""


def training_step(recipe: Recipe, options: RunOptions, who: str) -> TorchRun:
    """The denoiser with adapters, and a step: noise, prediction, loss.

    Args:
        recipe: of the pipeline.
        options: of the run.
        who: what the user typed, for errors.

    Raises:
        MissingPackage: peft is not installed.
        WorkloadError: the inputs of the denoiser could not be found, or have no timestep.
    """
    name = recipe.denoiser or ""
    found = part(recipe, name, options, who, guided=False)
    parameters = list(inspect.signature(type(found.model).forward).parameters)[1:]
    inputs = {**dict(zip(parameters, found.args, strict=False)), **found.kwargs}
    time = next((one for one in TIMES if one in inputs), None)
    if time is None:
        raise WorkloadError(f"the {name} of {who} gets no timestep", "Train it in a function: path/to/file.py:function")
    scheduler = found.pipeline.scheduler
    loss = loss_for(scheduler)
    notes = [
        *recipe.notes,
        f"LoRA of rank {RANK} on the attention of the {name}, trained against {loss.against}",
        "latents and embeddings were computed before the step",
    ]
    if not is_known(scheduler):
        notes.append(f"the loss was made up: diffusers trains nothing with {type(scheduler).__name__}")
    return TorchRun(
        model=with_adapters(found.model, options.dtype, who),
        kwargs=inputs,
        architecture=type(found.model).__name__,
        call=_Step(loss, parameters[0], time),
        batch_size=options.batch_size or 1,
        notes=notes,
    )


class _Step:
    """Noise, prediction and loss; ``latents`` and ``time`` are arguments of the model."""

    def __init__(self, loss: Flow | Noise, latents: str, time: str) -> None:
        self._loss = loss
        self._latents = latents
        self._time = time

    def __call__(self, model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> torch.Tensor:
        given, before = kwargs[self._latents], kwargs[self._time]
        latents = _together(given)
        noisy, timesteps, target = self._loss.noised(latents, torch.randn_like(latents), before)
        several = before.dim() > 1  # one for each token
        output = model(
            **{
                **kwargs,
                self._latents: noisy if given is latents else list(noisy.unbind()),
                self._time: before if several else timesteps,
            }
        )
        return difference(_together(output if isinstance(output, torch.Tensor) else output[0]), target)


def _together(tensors: Any) -> torch.Tensor:
    """A batch out of a list with one tensor for each image, which some denoisers take and return."""
    return tensors if isinstance(tensors, torch.Tensor) else torch.stack(list(tensors))


def with_adapters(model: Any, dtype: str, who: str) -> Any:
    """``model`` in ``train`` mode, frozen but for LoRA adapters."""
    try:
        from peft import LoraConfig, inject_adapter_in_model
    except ImportError as error:
        raise MissingPackage(f"training {who} by LoRA", "peft") from error
    linear = [name for name, module in model.named_modules() if isinstance(module, torch.nn.Linear)]
    targets = [name for name in linear if name.endswith(PROJECTIONS)] or [name for name in linear if "att" in name]
    model.requires_grad_(False)
    config = LoraConfig(r=RANK, lora_alpha=RANK, init_lora_weights="gaussian", target_modules=targets)
    inject_adapter_in_model(config, model)
    for parameter in model.parameters():
        if parameter.requires_grad and dtype == "float16":
            parameter.data = parameter.data.float()
    return model.train()
