"""A pipeline from its recipe. Its tokenizers have no vocabulary: each word and each mark is one token."""

from __future__ import annotations

import inspect
from collections.abc import Collection
from typing import Any

import torch

from mpsprobe.errors import MpsprobeError, WorkloadError
from mpsprobe.suggestions import in_short
from mpsprobe_hf.diffusers.models import make, quiet
from mpsprobe_hf.diffusers.recipe import Recipe

WORD = 5
"""The id of every word: none of the special ones that text encoders look for."""
LONGEST = 512
"""Tokens, where the text encoder does not say how many positions it has (T5)."""
CLIP = {"bos": 49406, "eos": 49407, "pad": 49407}
"""Of CLIP's tokenizer; the ``config.json`` of older checkpoints has other ids, which CLIP's code knows to ignore."""
CHAT = (
    "{% for message in messages %}{{ message.role }} : {% if message.content is string %}{{ message.content }}"
    "{% else %}{% for part in message.content %}{{ part.text }} {% endfor %}{% endif %} {% endfor %}"
    "{% if add_generation_prompt %}assistant :{% endif %}"
)


def make_tokenizer(config: Any) -> Any:
    """A tokenizer of transformers for a text encoder with the configuration ``config``."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    text = config.get_text_config() if config is not None else None
    clip = "clip" in getattr(text, "model_type", "")
    given = {key: _id(text, key) for key in ("bos", "eos", "pad")}
    ids = {key: token for key, token in (CLIP if clip else given).items() if token is not None}
    if "t5" in getattr(text, "model_type", ""):
        ids.pop("bos", None)
    ids.setdefault("pad", ids.get("eos", 0))
    names = {key: next(other for other, number in ids.items() if number == token) for key, token in ids.items()}
    vocabulary = {f"<{names[key]}>": token for key, token in ids.items()} | {"<word>": WORD}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="<word>"))
    backend.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation()])
    first = f"<{names['bos']}> " if "bos" in ids else ""
    last = f" <{names['eos']}>" if clip or "t5" in getattr(text, "model_type", "") else ""
    backend.post_processor = processors.TemplateProcessing(
        single=f"{first}$A{last}", special_tokens=list(vocabulary.items())
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        unk_token="<word>",
        model_max_length=getattr(text, "max_position_embeddings", None) or LONGEST,
        chat_template=CHAT,
        **{f"{key}_token": f"<{name}>" for key, name in names.items()},
    )


def _id(config: Any, key: str) -> int | None:
    token = getattr(config, f"{key}_token_id", None)
    return token[0] if isinstance(token, list) else token


def assemble(recipe: Recipe, dtype: torch.dtype, who: str, *, small: bool, few: Collection[str] = ()) -> Any:
    """A pipeline of diffusers, its models on torch's default device; the models ``few`` have few layers anyway.

    Raises WorkloadError: a component or the pipeline cannot be made.
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
