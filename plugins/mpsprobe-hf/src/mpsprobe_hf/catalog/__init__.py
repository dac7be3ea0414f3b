"""Every named workload. To add one, add an ``Entry`` to the table of its family."""

from __future__ import annotations

from functools import cache

from mpsprobe_hf.catalog.entry import Entry


@cache
def entries() -> dict[str, Entry]:
    """The catalog, by name."""
    from mpsprobe_hf.catalog import decoders, encoders, vision

    tables = (encoders.ENTRIES, decoders.ENTRIES, vision.ENTRIES)
    return {entry.name: entry for table in tables for entry in table}
