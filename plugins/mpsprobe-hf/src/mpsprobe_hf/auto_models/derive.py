"""Inputs for a model class that nobody described: from its ``forward``, its main input and its configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mpsprobe.errors import WorkloadError
from mpsprobe_hf.auto_models.labels import label_fields
from mpsprobe_hf.auto_models.signature import Signature, first
from mpsprobe_hf.catalog.entry import Dimension, Field
from mpsprobe_hf.generation import prompt

DEFAULT_LENGTH = 128
SAMPLES = 16_000
"""One second of sound at 16 kHz."""
OWN_FUNCTION = "Write a function that returns the model and its inputs, and name it instead: path/to/file.py:function"
IGNORABLE = frozenset({"input_ids", "attention_mask", "kwargs", "labels"})


@dataclass(frozen=True, slots=True)
class Derived:
    """Inputs and sizes for a model class; has what ``mpsprobe_hf.sizes.Limits`` asks for.

    Attributes:
        fields: what ``forward`` is given.
        has_labels: whether the model computes a loss of its own from them.
        note: what was assumed, for the report.
    """

    name: str
    fields: tuple[Field, ...]
    has_labels: bool
    note: str
    seq_len: int | None
    longest: int
    shortest: int = 1
    seq_unit: str = "tokens"

    @property
    def batch_size(self) -> Mapping[str, int]:
        """One sample for inference, two for training: enough for every kind of normalisation."""
        return {"inference": 1, "training": 2}


def derive(name: str, signature: Signature, phase: str, hint: str = OWN_FUNCTION) -> Derived:
    """Inputs for one step of ``phase``; ``hint`` says what to do where there are none.

    Raises:
        WorkloadError: the class and its configuration do not show what ``forward`` needs.
    """
    fields = _inputs(signature)
    if not fields:
        raise WorkloadError(
            f"no inputs can be derived for {signature.name}: its main input is '{signature.main}', "
            f"its forward takes {_listed(signature)}",
            hint,
        )
    labels: tuple[Field, ...] = ()
    if phase == "training":
        labels = label_fields(signature, fields)
        if any(field.name == "labels" for field in labels) and "decoder_input_ids" not in signature.required:
            fields = [field for field in fields if not field.name.startswith("decoder_")]
    missing = signature.required - {field.name for field in (*fields, *labels)} - IGNORABLE
    if missing:
        raise WorkloadError(
            f"no inputs can be derived for {signature.name}: its forward needs {', '.join(sorted(missing))}",
            hint,
        )
    if phase == "generate":
        fields = list(prompt(fields))
    sequences = any("seq" in field.shape for field in (*fields, *labels))
    lead = signature.image_token if any(field.name == "pixel_values" for field in fields) else None
    shortest = 1 + lead[1] if lead else 1
    # A part of the model may store positions for fewer tokens than an image takes; then it is not the limit.
    longest = signature.longest if signature.longest >= shortest else 0
    default = DEFAULT_LENGTH if not lead else lead[1] + 64
    return Derived(
        name=name,
        fields=(*fields, *labels),
        has_labels=bool(labels),
        note="inputs were derived from the model's configuration: " + ", ".join(f.name for f in (*fields, *labels)),
        seq_len=(min(default, longest) if longest else default) if sequences else None,
        longest=longest,
        shortest=shortest,
    )


def _listed(signature: Signature) -> str:
    shown = sorted(signature.parameters)
    return ", ".join(shown[:12]) + (" …" if len(shown) > 12 else "")


def _inputs(signature: Signature) -> list[Field]:
    """The fields of one forward pass, in the order text, image, sound, series; empty if the main input is unknown."""
    found = [*_text(signature), *_image(signature), *_sound(signature), *_series(signature)]
    names = {field.name for field in found}
    if signature.main in names or (found and signature.main not in signature.parameters):
        return found
    return []


def _takes(signature: Signature, name: str) -> bool:
    return name in signature.parameters


def _text(signature: Signature) -> list[Field]:
    vocabulary = signature.vocabulary
    if vocabulary is None or not _takes(signature, "input_ids"):
        return _decoder(signature)
    pad = first(signature.text, "pad_token_id")
    settings: dict[str, object] = {"pad": pad} if isinstance(pad, int) and 0 <= pad < vocabulary else {}
    lead = signature.image_token if _takes(signature, "pixel_values") else None
    mask: dict[str, object] = {}
    if lead is not None and 0 <= lead[0] < vocabulary:
        mask = {"keep": lead[1]}
        settings |= {"lead": lead, "keep": lead[1]}
    fields = [Field("input_ids", "tokens", ("batch", "seq"), vocabulary, settings)]
    if _takes(signature, "attention_mask"):
        fields.append(Field("attention_mask", "padding_mask", ("batch", "seq"), settings=mask))
    if "bbox" in signature.parameters:
        fields.append(Field("bbox", "integers", ("batch", "seq", 4), 1))
    return [*fields, *_decoder(signature)]


def _decoder(signature: Signature) -> list[Field]:
    """Ids for the decoder of an encoder-decoder model."""
    vocabulary = signature.vocabulary
    wanted = getattr(signature.config, "is_encoder_decoder", False) or "decoder_input_ids" in signature.required
    if vocabulary is None or not wanted or not _takes(signature, "decoder_input_ids"):
        return []
    return [Field("decoder_input_ids", "tokens", ("batch", "seq"), vocabulary)]


def _image(signature: Signature) -> list[Field]:
    height, width = signature.image_size
    frames = first(signature.vision, "num_frames", "frames_per_clip")
    if _takes(signature, "pixel_values_videos") and signature.main == "pixel_values_videos":
        shape: tuple[Dimension, ...] = ("batch", frames or 8, signature.channels, height, width)
        return [Field("pixel_values_videos", "floats", shape)]
    if not _takes(signature, "pixel_values") or _takes(signature, "image_grid_thw"):
        return []
    shape = ("batch", signature.channels, height, width)
    if isinstance(frames, int) and signature.main == "pixel_values":
        shape = ("batch", frames, signature.channels, height, width)
    if _takes(signature, "pixel_attention_mask") and not _takes(signature, "spatial_shapes"):
        shape = ("batch", 1, signature.channels, height, width)  # as many images as the text has; here one
    fields = []
    if signature.needs_image_sizes:
        side, tiles = (height, width), first([signature.config], "image_grid_pinpoints")
        if tiles:  # the image is cut into tiles, and once more as a whole
            side = tuple(tiles[0])
            count = (side[0] // height) * (side[1] // width) + 1
            shape = ("batch", count, signature.channels, height, width)
        fields.append(Field("image_sizes", "rows", ("batch", 2), settings={"row": side}))
    fields.append(Field("pixel_values", "floats", shape))
    if "bool_masked_pos" in signature.required:
        patch = first(signature.vision, "patch_size")
        fields.append(Field("bool_masked_pos", "flags", ("batch", (height // patch) * (width // patch))))
    return fields


def _sound(signature: Signature) -> list[Field]:
    mels = first(signature.audio, "num_mel_bins", "feature_size", "n_mels")
    if _takes(signature, "input_features") and signature.main == "input_features":
        frames = first(signature.audio, "max_source_positions")
        width = first(signature.audio, "feature_projection_input_dim", "input_feat_per_channel")
        if width is None and isinstance(frames, int) and "decoder_input_ids" in signature.parameters:
            # Whisper's convolutions halve the frames; its features are (mels, frames).
            return [Field("input_features", "floats", ("batch", mels or 80, 2 * frames))]
        return [Field("input_features", "floats", ("batch", 256, width or mels or 80))]
    if _takes(signature, "input_values") and signature.main == "input_values":
        length = first(signature.audio, "max_length")
        if isinstance(mels, int) and isinstance(length, int):
            # A spectrogram as an image, (frames, mels), as the Audio Spectrogram Transformer reads it.
            return [Field("input_values", "floats", ("batch", length, mels))]
        if first(signature.audio, "audio_channels", "codebook_size") is not None:
            return [Field("input_values", "floats", ("batch", 1, SAMPLES))]
        return [Field("input_values", "floats", ("batch", SAMPLES))]
    return []


def _series(signature: Signature) -> list[Field]:
    if signature.main != "past_values" and "past_values" not in signature.required:
        return []
    context = first([signature.config], "context_length")
    channels = first([signature.config], "num_input_channels")
    if not isinstance(context, int) or "past_time_features" in signature.required:
        return []
    shape: tuple[Dimension, ...] = ("batch", context, channels) if isinstance(channels, int) else ("batch", context)
    return [Field("past_values", "floats", shape)]
