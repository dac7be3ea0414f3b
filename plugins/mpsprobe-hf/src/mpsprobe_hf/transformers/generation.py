"""How models are run by ``generate()`` of transformers: which classes have it, and what it is given."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from mpsprobe.errors import UsageError, WorkloadError
from mpsprobe.protocols import GenerateOptions
from mpsprobe.suggestions import printable
from mpsprobe_hf.sizes import Field

DECODINGS: Mapping[str, Mapping[str, Any]] = {
    "greedy": {"do_sample": False, "num_beams": 1},
    "sampling": {"do_sample": True, "num_beams": 1, "temperature": 0.7, "top_k": 50, "top_p": 0.95},
    "beams": {"do_sample": False, "num_beams": 4},
}
"""``--decoding`` → arguments of ``generate()``, as users of transformers write them."""

HEADS = (
    "MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES",
    "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES",
    "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES",
    "MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES",
    "MODEL_FOR_TEXT_TO_WAVEFORM_MAPPING_NAMES",
    "MODEL_FOR_TEXT_TO_SPECTROGRAM_MAPPING_NAMES",
    "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES",
)
"""Mappings of transformers that say which class of a model type generates, the one with the most inputs first."""


def generating_class_name(model_type: str) -> str:
    """The class of the model type whose ``generate()`` is called; empty if it has none."""
    from transformers.models.auto import modeling_auto

    for mapping in HEADS:
        names = getattr(modeling_auto, mapping, {}).get(model_type)
        if names:
            return str(names if isinstance(names, str) else names[0])
    return ""


def check_generates(name: str, model_class: type[Any], model_type: str) -> None:
    """Refuse a class that cannot generate.

    Raises WorkloadError: it has no ``generate()``; the hint names a class of ``model_type`` that has.
    """
    if not callable(getattr(model_class, "generate", None)):
        other = generating_class_name(model_type)
        better = other and other != model_class.__name__
        named = f"hf:{model_type}/{other} can: name that, or leave" if better else "Leave"
        raise WorkloadError(
            f"'{printable(name)}' cannot generate: {model_class.__name__} has no generate()",
            f"{named} out --phase generate.",
        )


def prompt(fields: Iterable[Field], *, timed: bool = False) -> tuple[Field, ...]:
    """What of a forward pass's inputs ``generate()`` is given: not the decoder's, which it makes itself.

    Args:
        fields: of a forward pass.
        timed: words get times, which needs the place where the sound ends.
    """
    given = tuple(field for field in fields if not field.name.startswith("decoder_"))
    sound = next((field for field in given if field.name == "input_features"), None)
    if timed and sound is not None and all(field.name != "attention_mask" for field in given):
        given += (Field("attention_mask", "ones", (sound.shape[0], sound.shape[-1])),)
    return given


def arguments(options: GenerateOptions) -> dict[str, Any]:
    """The arguments of ``generate()`` besides the prompt."""
    asked: dict[str, Any] = {"max_new_tokens": options.new_tokens, **DECODINGS[options.decoding]}
    if options.cache != "dynamic":
        asked["cache_implementation"] = options.cache
    if options.word_timestamps:  # as the pipeline of speech recognition asks for words
        asked |= dict.fromkeys(("return_timestamps", "return_token_timestamps", "return_segments"), True)
    return asked


def whisper_settings(config: Any) -> dict[str, Any]:
    """What a checkpoint of Whisper says in its ``generation_config.json``.

    Ids from the order of OpenAI's tokenizer: text, end, start, languages (99, later 100), translate, transcribe, two
    more, no speech, no timestamps, 1501 timestamps. Heads: those of the last half of the decoder, which OpenAI's code
    takes where nobody has chosen better ones.
    """
    untimed = config.vocab_size - 1502
    translate = untimed - 5
    start = config.decoder_start_token_id
    layers, heads = config.decoder_layers, config.decoder_attention_heads
    return {
        "is_multilingual": True,
        "lang_to_id": {f"<|{number}|>": number for number in range(start + 1, translate)},
        "task_to_id": {"translate": translate, "transcribe": translate + 1},
        "no_timestamps_token_id": untimed,
        "alignment_heads": [[layer, head] for layer in range(layers // 2, layers) for head in range(heads)],
    }


def bark_settings(config: Any) -> dict[str, Any]:
    """The defaults of ``BarkGenerationConfig``, which ``BarkModel`` does not make by itself."""
    stages = ("semantic_config", "coarse_acoustics_config", "fine_acoustics_config")
    return {**{stage: {} for stage in stages}, "codebook_size": config.codec_config.codebook_size}


SETTINGS: Mapping[str, Callable[[Any], Mapping[str, Any]]] = {"whisper": whisper_settings, "bark": bark_settings}
"""Model type → what its ``generate()`` reads from ``generation_config.json``, which a configuration does not say."""


def bark_arguments(config: Any, inputs: Mapping[str, Any], asked: Mapping[str, Any]) -> dict[str, Any]:
    """The first stage writes as many; the others as many as follow from that."""
    return {"semantic_max_new_tokens" if name == "max_new_tokens" else name: value for name, value in asked.items()}


def speecht5_arguments(config: Any, inputs: Mapping[str, Any], asked: Mapping[str, Any]) -> dict[str, Any]:
    """Its spectrogram's lengths are shares of the text's, and a half is added for what is cut off."""
    if "input_ids" not in inputs:  # speech to text
        return dict(asked)
    ratio = config.reduction_factor * (asked["max_new_tokens"] + 0.5) / inputs["input_ids"].shape[1]
    return {"minlenratio": ratio, "maxlenratio": ratio}


ARGUMENTS: Mapping[str, Callable[[Any, Mapping[str, Any], Mapping[str, Any]], dict[str, Any]]] = {
    "bark": bark_arguments,
    "speecht5": speecht5_arguments,
}
"""Model type → the arguments of its ``generate()`` from configuration, prompt and what others are given."""


def note(options: GenerateOptions) -> str:
    """What was asked for, for the report."""
    what = "one token" if options.new_tokens == 1 else f"{options.new_tokens} tokens"
    timed = ", with the time of each word" if options.word_timestamps else ""
    return f"generate() of {what}: {options.decoding}, {options.cache} cache{timed}"


def generating(model: Any, options: GenerateOptions) -> Any:
    """``TorchRun.call`` for ``model``. Raises UsageError: words cannot have times."""
    if options.word_timestamps and not hasattr(model, "_extract_token_timestamps"):
        raise UsageError(f"{type(model).__name__} gives words no times", "Leave out --word-timestamps.")
    asked = arguments(options)
    for name, value in SETTINGS.get(model.config.model_type, lambda config: {})(model.config).items():
        if getattr(model.generation_config, name, None) is None:  # real weights bring their own
            setattr(model.generation_config, name, value)

    accepted = inspect.signature(model.generate).parameters.values()
    anything = any(parameter.kind is parameter.VAR_KEYWORD for parameter in accepted)
    names = {parameter.name for parameter in accepted}

    def run(model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        own = ARGUMENTS.get(model.config.model_type)
        given = {**kwargs, **(own(model.config, kwargs, asked) if own else asked)}
        try:
            return model.generate(*args, **{name: v for name, v in given.items() if anything or name in names})
        finally:
            vars(model).pop("_cache", None)  # a static cache, which the next call would use again

    return run
