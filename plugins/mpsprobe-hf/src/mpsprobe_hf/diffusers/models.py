"""Components from their classes and configurations, as ``from_pretrained`` would leave them but for the numbers.

They are made on torch's default device: where that turns parameters into meta tensors, they take no memory.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
import logging
import warnings
from collections.abc import Iterator, Mapping
from typing import Any
from unittest.mock import patch

import torch
from huggingface_hub import constants

from mpsprobe.errors import MpsprobeError, WorkloadError
from mpsprobe.suggestions import in_short
from mpsprobe_hf.catalog.entry import Component
from mpsprobe_hf.diffusers.classes import named_class
from mpsprobe_hf.forms import merged
from mpsprobe_hf.transformers.construct import default_dtype, keep_in_float32, parameters_are_meta

FEW = 2
"""Layers of each kind in a small model: some pipelines take the last layer but one of a text encoder."""
LAYERS = (
    "num_layers", "num_single_layers", "num_hidden_layers", "num_refiner_layers", "num_text_blocks",
    "num_visual_blocks",
)  # fmt: skip
"""What configurations call their numbers of layers."""


def make(component: Component, dtype: torch.dtype, who: str, *, small: bool = False) -> Any:
    """A model with random weights in ``eval`` mode, a scheduler or a processor.

    Raises WorkloadError: the class refuses the configuration; MissingPackage: a package that the class needs is not
    installed.
    """
    # Some old classes fetch a tokenizer while they are made.
    with quiet(), patch.object(constants, "HF_HUB_OFFLINE", True):
        class_ = named_class(component.class_name, who)
        try:
            config = copy.deepcopy(merged(component.config, component.small if small else {}))
            if not issubclass(class_, torch.nn.Module):
                with torch.device("cpu"):  # where numpy reads the tables of schedulers, wherever the models are
                    return class_(**config)
            if small:
                config = merged(config, few_layers(class_, config, component.small))
            with default_dtype(dtype), without_tables():
                model = _transformers(class_, config) if hasattr(class_, "config_class") else class_(**config)
        except MpsprobeError:
            raise
        except Exception as error:
            raise WorkloadError(
                f"{who} cannot be built: {component.class_name} raised {in_short(error)}",
                "The installed diffusers or transformers may be too old or too new for it.",
            ) from error
    keep_in_float32(model, dtype)
    return model.eval()


def _transformers(class_: type[Any], config: Mapping[str, Any]) -> Any:
    from transformers.initialization import no_init_weights

    made = class_.config_class(**config)
    made.dtype = torch.get_default_dtype()
    with no_init_weights() if parameters_are_meta() else contextlib.nullcontext():
        model = class_(made)
    model.tie_weights()
    return model


def few_layers(class_: type[Any], config: Mapping[str, Any], said: Mapping[str, Any]) -> dict[str, Any]:
    """What makes a configuration of ``found`` one of few layers, inside of nested ones too.

    Args:
        found: the class of the model.
        config: its configuration; what is not in it has the defaults of the class.
        said: what is not to be changed.
    """
    if not hasattr(class_, "config_class"):
        parameters = inspect.signature(class_.__init__).parameters
        return _fewer({key: config.get(key, parameter.default) for key, parameter in parameters.items()}, said)
    made = class_.config_class(**config)
    nested = {key: getattr(made, key, None) for key in made.sub_configs}
    few = {key: _fewer(vars(inner), said.get(key, {})) for key, inner in nested.items() if inner is not None}
    return {**_fewer(vars(made), said), **few}


def _fewer(config: Mapping[str, Any], said: Mapping[str, Any]) -> dict[str, Any]:
    numbers = {key: config[key] for key in LAYERS if key in config and key not in said}
    return {key: min(value, FEW) for key, value in numbers.items() if isinstance(value, int)}


@contextlib.contextmanager
def without_tables() -> Iterator[None]:
    """Where weights have no data, neither have the tables of positions that checkpoints hold.

    That of Stable Diffusion 3.5 takes gigabytes while it is computed, in float64.
    """
    from diffusers.models import embeddings

    own = embeddings.get_2d_sincos_pos_embed

    def table(embed_dim: int, grid_size: Any, *args: Any, **kwargs: Any) -> torch.Tensor:
        height, width = grid_size if isinstance(grid_size, (tuple, list)) else (grid_size, grid_size)
        return torch.empty(height * width, embed_dim)

    if parameters_are_meta():
        embeddings.get_2d_sincos_pos_embed = table
    try:
        yield
    finally:
        embeddings.get_2d_sincos_pos_embed = own


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """No warnings of diffusers and transformers: about optional packages, names that go away, prompts that are cut."""
    from diffusers.utils import logging as ours
    from transformers.utils import logging as theirs

    before = ours.get_verbosity(), theirs.get_verbosity()
    ours.set_verbosity(logging.ERROR)
    theirs.set_verbosity(logging.ERROR)
    try:
        with warnings.catch_warnings():
            for category in (FutureWarning, DeprecationWarning):
                warnings.simplefilter("ignore", category)
            yield
    finally:
        ours.set_verbosity(before[0])
        theirs.set_verbosity(before[1])
