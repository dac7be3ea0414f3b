"""A pipeline from its recipe."""

from __future__ import annotations

import inspect
from collections.abc import Collection
from typing import Any

import torch

from mpsprobe.errors import MpsprobeError, WorkloadError
from mpsprobe.suggestions import in_short
from mpsprobe_hf.diffusers.models import make, quiet
from mpsprobe_hf.diffusers.recipe import Recipe
from mpsprobe_hf.diffusers.tokens import make_tokenizer


def assemble(recipe: Recipe, dtype: torch.dtype, who: str, *, small: bool, few: Collection[str] = ()) -> Any:
    """A pipeline of diffusers, its models on torch's default device; the models ``few`` have few layers anyway.

    Raises:
        WorkloadError: a component or the pipeline cannot be made.
    """
    parts = {
        name: make(component, dtype, who, small=small or name in few) for name, component in recipe.components.items()
    }
    for name, kinds in recipe.processors.items():
        if "tokenizer" in name:
            encoder = parts.get(name.replace("tokenizer", "text_encoder"))
            parts[name] = make_tokenizer(getattr(encoder, "config", None))
        else:
            with quiet():
                parts[name] = kinds[0]()
    settings = {**recipe.settings}
    parameters = dict(list(inspect.signature(recipe.pipeline.__init__).parameters.items())[1:])
    for name, parameter in parameters.items():
        if parameter.default is inspect.Parameter.empty and name not in parts:
            settings.setdefault(name, None)
    if "requires_safety_checker" in parameters and parts.get("safety_checker") is None:
        settings["requires_safety_checker"] = False
    with quiet():
        try:
            pipeline = recipe.pipeline(**parts, **settings)
        except MpsprobeError:
            raise
        except Exception as error:
            raise WorkloadError(
                f"{who} cannot be built: {recipe.pipeline.__name__} raised {in_short(error)}",
                "Write it as a function of yours instead: path/to/file.py:function",
            ) from error
    pipeline.set_progress_bar_config(disable=True)
    return pipeline
