"""Where a pipeline is that is named by its repository of the Hub or its folder. Imports neither torch nor diffusers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from mpsprobe_diffusers.catalog import entries

INDEX = "model_index.json"
"""What the folder of a pipeline has, and that of a model alone has not."""
HUB_ID = re.compile(r"([A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*?)(?:/([\w-]+))?")
"""``organisation/repository``, and a part of it."""


@dataclass(frozen=True, slots=True)
class Place:
    """A pipeline that somebody published or saved.

    Attributes:
        name: without its part, as the user typed it.
        part: of it; empty for the whole.
        entry: the name in the catalog, which has its sizes.
        folder: with its configurations; ``None`` where nothing was fetched.
    """

    name: str
    part: str = ""
    entry: str = ""
    folder: Path | None = None


def place_of(asked: str) -> Place | None:
    """The pipeline that ``asked`` names; ``None`` for no folder, and nothing in the Hub's cache or the catalog."""
    try:
        path = Path(asked).expanduser()
        if (path / INDEX).is_file():
            return Place(asked, folder=path)
        if (path.parent / INDEX).is_file():
            return Place(str(path.parent), path.name, folder=path.parent)
    except (OSError, RuntimeError, ValueError):
        return None
    found = HUB_ID.fullmatch(asked)
    if found is None:
        return None
    repository, part = found[1], found[2] or ""
    folder = _in_the_cache(repository)
    known = (one.name for one in entries().values() if one.checkpoint.lower() == repository.lower())
    place = Place(repository, part, next(known, ""), folder)
    return place if place.folder or place.entry else None


def _in_the_cache(repository: str) -> Path | None:
    """The folder of a repository's files, if those of a pipeline were fetched."""
    try:
        from huggingface_hub import try_to_load_from_cache
    except ImportError:
        return None
    index = try_to_load_from_cache(repository, INDEX)
    return Path(index).parent if isinstance(index, str) else None
