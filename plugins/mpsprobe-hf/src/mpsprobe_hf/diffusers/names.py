"""Names of pipelines: of the catalog, the library, a folder, a repository. Imports neither torch nor diffusers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mpsprobe.declarations import WorkloadDeclaration
from mpsprobe_hf.catalog import PIPELINES, listed
from mpsprobe_hf.installed import check_installed

if TYPE_CHECKING:
    from pathlib import Path

PREFIX = "diffusers:"
TARGET = "mpsprobe_hf.diffusers.workload:load"
INDEX = "model_index.json"
"""What the folder of a pipeline has, and that of a model alone has not."""
HUB_ID = re.compile(r"([A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*?)(?:/([\w-]+))?")
"""``organisation/repository``, and a part of it."""


@dataclass(frozen=True, slots=True)
class Place:
    """A pipeline that somebody published or saved."""

    name: str  # without its part, as the user typed it
    part: str = ""  # of it; empty for the whole
    entry: str = ""  # the name in the catalog, which has its sizes
    folder: Path | None = None  # with its configurations; ``None`` where nothing was fetched


def named() -> list[WorkloadDeclaration]:
    """The pipelines of the catalog."""
    return [
        WorkloadDeclaration(name, TARGET, facts["summary"], facts["family"], requires=tuple(facts["requires"]))
        for name, facts in _published().items()
    ]


def _published() -> dict[str, Mapping[str, Any]]:
    return {name: facts for name, facts in listed().items() if facts["file"] == PIPELINES}


def declare(name: str) -> WorkloadDeclaration | None:
    """``diffusers:NAME``: the same, their parts, and every other pipeline class of the installed diffusers.

    Without the prefix: a folder with a pipeline, and a repository of the Hub that is in the cache or the catalog.
    """
    if not name.startswith(PREFIX) and place_of(name) is None:
        return None
    return WorkloadDeclaration(name, TARGET, "a pipeline of diffusers, or a part of one", "image")


def space(prefix: str) -> Iterable[WorkloadDeclaration]:
    """The pipelines of the catalog, and the classes of the installed diffusers."""
    from mpsprobe_hf.diffusers.classes import LIBRARIES, pipeline_names

    check_installed("the names of diffusers' pipelines", LIBRARIES)
    sizes = [(name, facts["summary"], facts["family"]) for name, facts in _published().items()]
    classes = [(name, "a class of the installed diffusers", "image") for name in pipeline_names()]
    return [WorkloadDeclaration(PREFIX + name, TARGET, what, family) for name, what, family in (*sizes, *classes)]


def place_of(asked: str) -> Place | None:
    """The pipeline that ``asked`` names; ``None`` for no folder, and nothing in the Hub's cache or the catalog."""
    from pathlib import Path

    try:
        path = Path(asked).expanduser()
        if (path / INDEX).is_file():
            return Place(asked, folder=path)
        if (path.parent / INDEX).is_file():
            return Place(str(path.parent), path.name, folder=path.parent)
    except (OSError, RuntimeError, ValueError):
        return None
    match = HUB_ID.fullmatch(asked)
    if match is None:
        return None
    repository, part = match[1], match[2] or ""
    folder = _in_the_cache(repository)
    known = (name for name, facts in _published().items() if facts["checkpoint"].lower() == repository.lower())
    place = Place(repository, part, next(known, ""), folder)
    return place if place.folder or place.entry else None


def _in_the_cache(repository: str) -> Path | None:
    """The folder of a repository's files, if those of a pipeline were fetched."""
    from pathlib import Path

    try:
        from huggingface_hub import try_to_load_from_cache
    except ImportError:
        return None
    index = try_to_load_from_cache(repository, INDEX)
    return Path(index).parent if isinstance(index, str) else None
