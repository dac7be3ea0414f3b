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
        segmentation,
        seq2seq,
        series,
        speech,
        tables,
        vision,
        vision_language,
    )

    modules = (
        encoders,
        decoders,
        embeddings,
        image_models,
        language_models,
        experts,
        seq2seq,
        vision,
        vision_language,
        segmentation,
        audio,
        multimodal,
        series,
        speech,
        tables,
    )
    return {entry.name: entry for table in modules for entry in table.ENTRIES}


def published_as(checkpoint: str) -> Entry | None:
    """The entry with the sizes of that repository of the Hub."""
    return next((entry for entry in entries().values() if entry.checkpoint == checkpoint), None)
