"""What the user named: a file, a folder, or a repository of the Hub in the local cache. Never the network."""

from __future__ import annotations

import itertools
import os
import re
from pathlib import Path

from mpsprobe.errors import WorkloadError
from mpsprobe.suggestions import nearest, printable

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
"""``organisation/repository``, as the Hub allows them."""
PATH_LIKE = re.compile(r"[./~\\]|[A-Za-z]:[\\/]")
"""How a name begins that can only be a path: ``./x``, ``/x``, ``~/x``, ``..\\x``, ``C:\\x``."""
HUB = "models--"
MOST_LISTED = 10_000


def locate(name: str) -> Path:
    """The file or folder that ``name`` is."""
    try:
        path = Path(name).expanduser()
        if path.exists():
            return path
    except (OSError, RuntimeError, ValueError) as error:
        raise WorkloadError(f"'{printable(name)}' cannot be read", "Check the path.") from error
    repository = name.removeprefix("hf:")
    if PATH_LIKE.match(name) or not HUB_ID.fullmatch(repository):
        raise WorkloadError(f"there is no file or folder '{printable(name)}'", _near(path))
    return _snapshot(repository)


def cache_folder() -> Path:
    """Where the Hub's files are kept (``huggingface_hub.constants``, 2.4)."""
    if chosen := os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE"):
        return Path(os.path.expandvars(chosen)).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    home = os.environ.get("HF_HOME") or f"{cache}/huggingface"
    return Path(os.path.expandvars(home)).expanduser() / "hub"


def _snapshot(repository: str) -> Path:
    """The folder of a repository's files: those of ``main``, else the newest."""
    cache = cache_folder()
    folder = cache / (HUB + repository.replace("/", "--"))
    try:
        reference = folder / "refs" / "main"
        if reference.is_file():
            commit = reference.read_text(encoding="ascii", errors="replace")[:100].strip()
            if commit.isalnum() and (folder / "snapshots" / commit).is_dir():
                return folder / "snapshots" / commit
        snapshots = [path for path in (folder / "snapshots").iterdir() if path.is_dir()]
        if snapshots:
            return max(snapshots, key=lambda path: path.stat().st_mtime)
    except OSError:
        pass
    raise WorkloadError(
        f"there is no file or folder '{printable(repository)}', and no such repository in the cache of the Hub",
        f"{_near_repositories(cache, repository)}Nothing is downloaded here. Fetch it: hf download {repository}",
    )


def _near_repositories(cache: Path, repository: str) -> str:
    try:
        with os.scandir(cache) as listed:
            names = [entry.name for entry in itertools.islice(listed, MOST_LISTED)]
    except OSError:
        return ""
    ids = [name.removeprefix(HUB).replace("--", "/", 1) for name in names if name.startswith(HUB)]
    near = nearest(repository, ids)
    return f"In the cache are: {', '.join(map(printable, near))}. " if near else ""


def _near(path: Path) -> str:
    try:
        near = nearest(path.name, [file.name for file in path.parent.iterdir()])
    except OSError:
        near = []
    shown = " or ".join(str(path.parent / printable(name)) for name in near)
    return f"Did you mean {shown}?" if near else "Check the path."
