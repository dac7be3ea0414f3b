"""Which files of a folder are its weights: what ``from_pretrained`` would load, and what else lies there."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mpsprobe.errors import WorkloadError
from mpsprobe.suggestions import printable
from mpsprobe_hf.checkpoint.gguf import MAGIC, read_gguf
from mpsprobe_hf.checkpoint.pickled import ZIP, read_pickled
from mpsprobe_hf.checkpoint.reading import ReadFile, check_inside, damaged, inside, open_regular, read_json
from mpsprobe_hf.checkpoint.safetensors import read_safetensors

INDEX = ".index.json"
READERS = {"safetensors": read_safetensors, "gguf": read_gguf, "pickle": read_pickled}  # the preferred ones first
PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
SUFFIXES = {".safetensors": "safetensors", ".gguf": "gguf", **dict.fromkeys(PICKLED, "pickle")}
"""Endings of files with weights → their format."""
FIRST = ("model", "diffusion_pytorch_model", "adapter_model", "pytorch_model", "consolidated")
"""How the files begin that libraries load without being asked for a name, in the order in which they are looked for."""
NOT_WEIGHTS = re.compile(r"(optimizer|scheduler|scaler|rng_state|training_args|random_states|tokenizer)", re.IGNORECASE)
"""Files that trainers write next to the weights."""
SHARD = re.compile(r"(?P<stem>.+)-\d{5}-of-(?P<count>\d{5})$")
MOST_ENTRIES = 10_000
"""Of a folder; more are not looked at."""
MOST_FILES = 2_000
"""Of one set of weights."""


@dataclass(slots=True)
class Weights:
    """The files that belong together, read; none where a folder has no weights."""

    format: str | None = None
    files: list[ReadFile] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)  # those that the index names
    others: list[str] = field(default_factory=list)  # further files with weights
    total: int | None = None  # bytes that the index says that all files have


def entries(folder: Path) -> list[str]:
    """The names in a folder, sorted."""
    try:
        with os.scandir(folder) as listed:
            names = [entry.name for entry in itertools.islice(listed, MOST_ENTRIES + 1)]
    except OSError as error:
        raise damaged(folder, f"cannot be read: {error.strerror}", "Check its permissions.") from error
    if len(names) > MOST_ENTRIES:
        raise damaged(folder, f"has more than {MOST_ENTRIES:,} files", "Give the folder of one checkpoint.")
    return sorted(names)


def format_of(path: Path) -> str | None:
    """The format of a file with weights, by its ending; ``None`` for another file."""
    return SUFFIXES.get(path.suffix.lower())


def read_file(path: Path) -> Weights:
    """A single file: by its ending, or by its first bytes."""
    if path.name.endswith(INDEX):
        return _indexed(path.parent, path.name)
    return Weights(kind := format_of(path) or _guessed(path), [READERS[kind](path)])


def read_weights(folder: Path) -> Weights:
    """The weights in ``folder``, as a library would choose them."""
    sets = list(_sets(entries(folder)))
    if not sets:
        return Weights()
    chosen = min(sets, key=_rank)
    index, files = chosen
    weights = _indexed(folder, index) if index else _read(folder, files)
    if not index:
        weights.missing = _shards_not_in(files)
    weights.others = [name for other in sets if other is not chosen for name in (other[1] or [other[0]])]
    return weights


def shards_of(name: str) -> int:
    """How many files a set has of which ``name`` says that it is one; 1 for any other name."""
    match = SHARD.match(Path(name).stem)
    return int(match["count"]) if match else 1


def _shards_not_in(files: list[str]) -> list[str]:
    """The shards that are missing by the names of the others: there need not be an index (GGUF has none)."""
    path, count = Path(files[0]), shards_of(files[0])
    stem = path.stem[: -len("-00001-of-00001")]
    names = [f"{stem}-{number:05}-of-{count:05}{path.suffix}" for number in range(1, min(count, MOST_FILES) + 1)]
    return [name for name in names if name not in files] if count > 1 else []


def mapped_files(folder: Path, index: str) -> tuple[dict[str, Path], int | None]:
    """The files that an index of shards names, and how many bytes it says that they have."""
    document = read_json(inside(folder, index))
    mapped = document.get("weight_map")
    if not isinstance(mapped, dict) or not mapped:
        raise damaged(folder / index, "is no index of shards: it has no weight_map")
    if not all(isinstance(name, str) for name in mapped.values()):
        raise damaged(folder / index, "maps a tensor to something that is no file name")
    names = dict.fromkeys(mapped.values())
    if len(names) > MOST_FILES:
        raise damaged(folder / index, f"names {len(names):,} files; at most {MOST_FILES:,} are read")
    metadata: Any = document.get("metadata")
    total = metadata.get("total_size") if isinstance(metadata, dict) else None
    return {name: inside(folder, name) for name in names}, total if type(total) is int and 0 <= total < 2**63 else None


def _indexed(folder: Path, index: str) -> Weights:
    paths, total = mapped_files(folder, index)
    kinds = {format_of(path) for path in paths.values()}
    if len(kinds) != 1 or None in kinds:
        shown = printable(", ".join(sorted(paths)[:3]))
        raise damaged(folder / index, f"names files that are no weights of one format: {shown}")
    there = [name for name, path in paths.items() if os.path.lexists(path)]
    if not there:
        raise damaged(folder, f"has none of the {len(paths)} files that {printable(index)} names")
    weights = _read(folder, there)
    weights.missing = [name for name in paths if name not in there]
    weights.total = total
    return weights


def _read(folder: Path, names: list[str]) -> Weights:
    if len(names) > MOST_FILES:
        raise damaged(folder, f"has {len(names):,} files with weights; at most {MOST_FILES:,} are read")
    for name in names:
        check_inside(folder, folder / name)
    kind = SUFFIXES[Path(names[0]).suffix.lower()]
    return Weights(kind, [READERS[kind](folder / name) for name in names])


def _sets(names: list[str]) -> Iterator[tuple[str, list[str]]]:
    """An index, or files that belong together by their names; of these the index is empty."""
    indices = {name.removesuffix(INDEX): name for name in names if name.endswith(INDEX)}
    indices = {stem: name for stem, name in indices.items() if format_of(Path(stem))}
    yield from ((name, []) for name in indices.values())
    shards: dict[tuple[str, str], list[str]] = {}
    for name in names:
        path = Path(name)
        if format_of(path) is None or NOT_WEIGHTS.match(name):
            continue
        match = SHARD.match(path.stem)
        key = (match["stem"] if match else path.stem, path.suffix)
        if "".join(key) not in indices:
            shards.setdefault(key, []).append(name)
    yield from (("", files) for files in shards.values())


def _rank(weights: tuple[str, list[str]]) -> tuple[int, bool, int, str]:
    """Safetensors come first, then what has no variant (``.fp16``), then the names that libraries look for."""
    index, files = weights
    path = Path(name := index.removesuffix(INDEX) if index else files[0])
    first = next((place for place, begin in enumerate(FIRST) if path.stem.startswith(begin)), len(FIRST))
    return list(READERS).index(SUFFIXES[path.suffix.lower()]), "." in path.stem, first, name


def _guessed(path: Path) -> str:
    stream, _ = open_regular(path)
    with stream:
        head = stream.read(9)
    if head.startswith(MAGIC):
        return "gguf"
    if head.startswith((ZIP, b"\x80")):
        return "pickle"
    if head[8:9] == b"{":
        return "safetensors"
    raise WorkloadError(
        f"'{printable(str(path))}' is no checkpoint: its first bytes are those of no format that is known here",
        "Known are safetensors, GGUF, what torch.save writes, and folders of these.",
    )


def text_of(config: Mapping[str, Any], key: str) -> str | None:
    """A text in a configuration, fit to print; ``None`` where there is none."""
    value = config.get(key)
    return printable(value) if isinstance(value, str) and value else None
