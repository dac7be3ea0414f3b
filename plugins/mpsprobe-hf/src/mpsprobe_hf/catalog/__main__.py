"""Writes ``names.json``, what is listed about each name: ``python -m mpsprobe_hf.catalog``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mpsprobe_hf.catalog import FILES, entries_of, pipelines
from mpsprobe_hf.catalog.entry import Entry, Pipeline


def listing() -> str:
    """The text of ``names.json``: a line for each name."""
    lines = []
    for file in FILES:
        entries: list[Entry | Pipeline] = [*entries_of(file).values()] or [*pipelines().values()]
        for entry in entries:
            facts: dict[str, Any] = {
                "family": entry.family,
                "summary": entry.summary,
                "phases": entry.phases,
                "requires": entry.requires,
                "checkpoint": entry.checkpoint,
                "model_type": entry.model_type,
                "file": file,
            }
            lines.append(f"{json.dumps(entry.name)}: {json.dumps(facts)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    Path(__file__).with_name("names.json").write_text(listing(), encoding="utf-8")
