"""A training step as diffusers' own training scripts take it: of the denoiser, or of LoRA adapters on it.

Facts, from ``train_text_to_image_lora.py``, ``train_dreambooth_lora_sdxl.py`` and ``train_dreambooth_lora_flux.py`` of
diffusers 0.42: the denoiser is frozen and gets adapters on the projections of its attention; they alone are trained, in
float32 where the model is in float16. The dreambooth scripts compute embeddings before the loop, and latents too where
they are asked to.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import torch

from mpsprobe.errors import WorkloadError
from mpsprobe.protocols import RunOptions, TorchRun
from mpsprobe_hf.diffusers.losses import Flow, Noise, difference, is_known, loss_for
from mpsprobe_hf.diffusers.parts import part
from mpsprobe_hf.diffusers.recipe import Recipe
from mpsprobe_hf.installed import check_installed

PROJECTIONS = ("to_k", "to_q", "to_v", "to_out.0")
"""The modules that the scripts put adapters on."""
TIMES = ("timestep", "t")
"""What denoisers call their timestep."""


def training_step(recipe: Recipe, options: RunOptions, who: str) -> TorchRun:
    """The denoiser, with adapters where the options ask for LoRA, and a step: noise, prediction, loss.

    Raises:
        MissingPackage: peft is not installed.
        WorkloadError: the inputs of the denoiser could not be found, or have no timestep.
    """
    if options.lora:
        check_installed(f"{who} with LoRA adapters", ("peft",))
    name = recipe.denoiser or ""
    found = part(recipe, name, options, who, guided=False)
    parameters = list(inspect.signature(type(found.model).forward).parameters)[1:]
    inputs = {**dict(zip(parameters, found.args, strict=False)), **found.kwargs}
    time = next((one for one in TIMES if one in inputs), None)
    if time is None:
        raise WorkloadError(f"the {name} of {who} gets no timestep", "Train it in a function: path/to/file.py:function")
    scheduler = found.pipeline.scheduler
    loss = loss_for(scheduler)
    trained = (
        f"LoRA of rank {options.lora_rank} on the attention of the {name} is" if options.lora else f"the {name} is"
    )
    notes = [
        *recipe.notes,
        f"{trained} trained against {loss.against}",
        "latents and embeddings were computed before the step",
    ]
    if not is_known(scheduler):
        notes.append(f"the loss was made up: diffusers trains nothing with {type(scheduler).__name__}")
    return TorchRun(
        model=with_adapters(found.model, options) if options.lora else found.model.train(),
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


def with_adapters(model: Any, options: RunOptions) -> Any:
    """``model`` in ``train`` mode, frozen but for LoRA adapters."""
    from peft import LoraConfig, inject_adapter_in_model

    linear = [name for name, module in model.named_modules() if isinstance(module, torch.nn.Linear)]
    targets = [name for name in linear if name.endswith(PROJECTIONS)] or [name for name in linear if "att" in name]
    rank = options.lora_rank
    model.requires_grad_(False)
    config = LoraConfig(r=rank, lora_alpha=rank, init_lora_weights="gaussian", target_modules=targets)
    inject_adapter_in_model(config, model)
    for parameter in model.parameters():
        if parameter.requires_grad and options.dtype == "float16":
            parameter.data = parameter.data.float()
    return model.train()
