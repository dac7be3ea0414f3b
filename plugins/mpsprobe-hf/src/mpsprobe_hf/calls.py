"""How a model is run once where that is not ``model(**inputs)``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


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
