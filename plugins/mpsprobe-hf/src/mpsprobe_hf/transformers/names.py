"""Which open name space a name belongs to. Imports neither torch nor transformers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from mpsprobe.declarations import WorkloadDeclaration
from mpsprobe.errors import WorkloadError
from mpsprobe.suggestions import nearest, printable
from mpsprobe_hf.catalog import published_as
from mpsprobe_hf.checkpoint.hub import HUB_ID, PATH_LIKE

PREFIX = "hf:"
_ROOM = "mpsprobe_hf.transformers"
PUBLISHED = f"{_ROOM}.workload:published"
"""Loads a repository whose sizes the catalog has."""
PYTHON_FILE = re.compile(r"\.py(:|$)", re.IGNORECASE)
"""``path/to/file.py:function``, which the core answers to."""
NAMES_FILE = re.compile(r"(.+\.toml)(?::(.*))?", re.IGNORECASE)
"""``path/to/names.toml:NAME``, a workload of a file of the user's."""


def declare(name: str) -> WorkloadDeclaration | None:
    """The workload that ``name`` stands for, ``None`` if it has none of the forms below.

    ``hf:bert`` and ``hf:bert/BertForMaskedLM`` are a model type and one of its classes, a folder is a checkpoint,
    ``path/to/names.toml:NAME`` a workload described there, ``organisation/repository`` (also after ``hf:``) is on the
    Hub. Where the catalog has the sizes of that repository, nothing needs to be fetched. Raises WorkloadError: it looks
    like a path, and there is no such folder.
    """
    if not name or not name.isprintable() or PYTHON_FILE.search(name):
        return None
    if split_file(name) is not None:
        return WorkloadDeclaration(name, "mpsprobe_hf.names_file:in_file", "a name of a TOML of yours", "file")
    if name.startswith(PREFIX):
        if published_as(name.removeprefix(PREFIX)) is not None:
            return WorkloadDeclaration(name, PUBLISHED, "a repository of the Hub", "hub")
        return WorkloadDeclaration(name, f"{_ROOM}.model_types:load", "a transformers model type", "text")
    folder = as_folder(name)
    if folder is not None and (folder / "saved_model.pb").exists() and not (folder / "config.json").exists():
        return None  # mpsprobe-tensorflow reads it
    if folder is not None:
        return WorkloadDeclaration(name, f"{_ROOM}.checkpoints:load", "a checkpoint folder", "checkpoint")
    if PATH_LIKE.match(name):
        raise WorkloadError(f"there is no checkpoint folder '{printable(name)}'", _near_folders(name))
    if HUB_ID.fullmatch(name):
        if published_as(name) is not None:
            return WorkloadDeclaration(name, PUBLISHED, "a repository of the Hub", "hub")
        return WorkloadDeclaration(name, f"{_ROOM}.checkpoints:load", "a repository of the Hub", "hub", guess=True)
    return None


def split_file(name: str) -> tuple[str, str] | None:
    """Path and name of ``path/to/names.toml:NAME``; ``None`` for another form."""
    parts = NAMES_FILE.fullmatch(name)
    return (parts[1], (parts[2] or "").strip()) if parts else None


def space(prefix: str) -> list[WorkloadDeclaration]:
    """Every model type, with its classes."""
    from mpsprobe_hf.transformers.classes import declared_classes, model_types

    return [of_type(model_type, declared_classes(model_type)) for model_type in model_types()]


def of_type(model_type: str, classes: Iterable[str]) -> WorkloadDeclaration:
    """The workload of a model type; its summary names the classes that can be asked for by ``hf:TYPE/CLASS``."""
    parts = tuple(classes)
    summary = ", ".join(parts) or "a part of another model"
    return WorkloadDeclaration(f"{PREFIX}{model_type}", f"{_ROOM}.model_types:load", summary, "text", parts=parts)


def as_folder(name: str) -> Path | None:
    """The existing folder that ``name`` is, with ``~`` for the user's own."""
    try:
        path = Path(name).expanduser()
        return path if path.is_dir() else None
    except (OSError, RuntimeError, ValueError):
        return None


def _near_folders(name: str) -> str:
    try:
        path = Path(name).expanduser()
        if path.is_file():
            return "It is a file: give the folder that holds config.json. mpsprobe checkpoint says what it holds."
        near = nearest(path.name, [file.name for file in path.parent.iterdir() if file.is_dir()])
        return (
            "Did you mean " + " or ".join(str(path.parent / name) for name in near) + "?" if near else "Check the path."
        )
    except (OSError, RuntimeError, ValueError):
        return "Check the path."
