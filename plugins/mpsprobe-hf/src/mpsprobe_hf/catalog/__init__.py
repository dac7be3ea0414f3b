"""Every named workload. To add one, add an ``Entry`` to the table of its family."""

from __future__ import annotations

from functools import cache

from mpsprobe_hf.catalog.entry import Entry


@cache
def entries() -> dict[str, Entry]:
    """The catalog, by name."""
    from mpsprobe_hf.catalog import (
        audio,
        decoders,
        embeddings,
        encoders,
        experts,
        image_models,
        language_models,
        multimodal,
        qwen_vision,
        segmentation,
        seq2seq,
        series,
        speech,
        tables,
        vision,
        vision_language,
    )

    text = (encoders, embeddings, decoders, language_models, experts, seq2seq)
    images = (vision, segmentation, image_models, multimodal, vision_language, qwen_vision)
    modules = (*text, *images, audio, speech, series, tables)
    return {entry.name: entry for table in modules for entry in table.ENTRIES}


def published_as(checkpoint: str) -> Entry | None:
    """The entry with the sizes of that repository of the Hub."""
    return next((entry for entry in entries().values() if entry.checkpoint == checkpoint), None)
