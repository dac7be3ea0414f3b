"""How a model is run once where that is not ``model(**inputs)``.

Models that keep in a session what they saw of a video (SAM 2 and 3) get one for each call. Their ``forward`` takes the
session and the number of a frame. The first frame gets a prompt: a point on the object that is followed, or a text
where the model finds objects by itself. In the frames after it the model uses its memory.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from typing import Any

import torch

SESSION = "inference_session"
"""The argument; among derived inputs the frames are given under its name: ``(frames, channels, height, width)``."""
PROMPT_TOKENS = 32


def in_session(model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Call ``model`` for each frame of a session of its own; returns what the last call does."""
    frames = kwargs[SESSION]
    session = _session_class(model)(
        video=frames,
        video_height=frames.shape[-2],
        video_width=frames.shape[-1],
        inference_device=frames.device,
        inference_state_device=frames.device,
        video_storage_device=frames.device,
        dtype=frames.dtype,
    )
    _prompt(session, frames)
    outputs = None
    for number in range(len(frames)):
        outputs = model(*args, **{**kwargs, SESSION: session, "frame_idx": number})
    return outputs


def _session_class(model: Any) -> Any:
    annotation = inspect.signature(type(model).forward).parameters[SESSION].annotation
    return getattr(sys.modules[type(model).__module__], annotation) if isinstance(annotation, str) else annotation


def _prompt(session: Any, frames: torch.Tensor) -> None:
    if hasattr(session, "add_prompt"):
        number = session.add_prompt("a text")
        session.prompt_input_ids[number] = torch.arange(PROMPT_TOKENS, device=frames.device).unsqueeze(0)
        session.prompt_attention_masks[number] = torch.ones(1, PROMPT_TOKENS, dtype=torch.int64, device=frames.device)
        return
    middle = torch.tensor([[[[frames.shape[-1] / 2, frames.shape[-2] / 2]]]], dtype=frames.dtype, device=frames.device)
    label = torch.ones(1, 1, 1, dtype=torch.int32, device=frames.device)
    session.add_point_inputs(session.obj_id_to_idx(1), 0, {"point_coords": middle, "point_labels": label})
    session.obj_with_new_inputs = [1]


def bark_stages(model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """One forward pass of each stage of ``BarkModel.generate``, which has no ``forward`` of its own.

    Text to semantic tokens, to coarse and then fine codes of the audio codec, to a waveform of
    shape ``(batch, 1, samples)``.
    """
    model.semantic(input_ids=kwargs["semantic_ids"])
    model.coarse_acoustics(input_ids=kwargs["coarse_ids"])
    model.fine_acoustics(7, input_ids=kwargs["fine_ids"])
    codes = kwargs["fine_ids"].permute(2, 0, 1)
    return model.codec_model.decoder(model.codec_model.quantizer.decode(codes))


CALLS: dict[str, Callable[[Any, tuple[Any, ...], Mapping[str, Any]], Any]] = {"bark_stages": bark_stages}
