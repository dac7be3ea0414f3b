"""Where the yaml is: in the installed torch, in wheels of other releases, in a checkout of torch-xpu-ops."""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import os
import re
import zipfile
from dataclasses import dataclass
from pathlib import Path

from mpsprobe.errors import TableError, UsageError

VARIABLE = "MPSPROBE_XPU_SOURCES"
PACKAGED = "torchgen/packaged/ATen/native/native_functions.yaml"
OPS_YAML = "yaml/native/native_functions.yaml"  # torch-xpu-ops, https://github.com/intel/torch-xpu-ops
OPS_FALLBACK = "src/ATen/native/xpu/XPUFallback.template"
LARGEST = 20_000_000  # bytes of a yaml; that of torch 2.13.0 has 700,000
_WHEEL = re.compile(r"torch-(\d+(?:\.\d+)+)(?:[+-].*)?\.whl", re.IGNORECASE)
_FALLBACKS = re.compile(r"fallback_list\s*=\s*\{(.*?)\}", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Source:
    """One yaml: its text, and what it is in words."""

    text: str
    what: str

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class XpuOps:
    """A checkout of torch-xpu-ops: its yaml, and the operators that it registers to run on the CPU."""

    yaml: Source
    fallback: frozenset[str]


def installed() -> tuple[str, Path] | None:
    """The release of the installed torch and its yaml, without importing either; None where it has none."""
    spec = importlib.util.find_spec("torchgen")
    try:
        release = importlib.metadata.version("torch").partition("+")[0]
    except importlib.metadata.PackageNotFoundError:
        return None
    folders = [] if spec is None else list(spec.submodule_search_locations or ())
    paths = [Path(folder).parent / PACKAGED for folder in folders]
    return next(((release, path) for path in paths if path.is_file()), None)


def named() -> tuple[dict[str, Path], Path | None]:
    """What the variable names: wheels by release, and the folder of torch-xpu-ops.

    Raises:
        UsageError: a part of it is neither.
    """
    wheels: dict[str, Path] = {}
    ops: Path | None = None
    for part in filter(None, os.environ.get(VARIABLE, "").split(os.pathsep)):
        path = Path(part)
        wheel = _WHEEL.fullmatch(path.name)
        if wheel and path.is_file():
            wheels[wheel[1]] = path
        elif (path / OPS_YAML).is_file():
            ops = path
        else:
            raise UsageError(
                f"{VARIABLE} names '{part[:100]}', which is neither a wheel of torch nor a checkout of torch-xpu-ops",
                f"Wheels are called torch-2.13.0-….whl; a checkout has {OPS_YAML}. Part them with '{os.pathsep}'.",
            )
    return wheels, ops


def from_wheel(path: Path) -> Source:
    """The yaml in a wheel of torch. The wheel is not installed, and nothing in it is run."""
    try:
        with zipfile.ZipFile(path) as wheel:
            if wheel.getinfo(PACKAGED).file_size > LARGEST:
                raise TableError(f"the yaml in {path.name} is too large to be one")
            text = wheel.read(PACKAGED).decode("utf-8")
    except (OSError, zipfile.BadZipFile, KeyError, UnicodeDecodeError) as error:
        raise TableError(f"{path.name} has no readable {PACKAGED}: {error}") from error
    return Source(text, f"native_functions.yaml of {path.name}")


def from_file(path: Path, what: str) -> Source:
    """A yaml of a folder."""
    try:
        if path.stat().st_size > LARGEST:
            raise TableError(f"{path.name} is too large to be a yaml of operators")
        return Source(path.read_text(encoding="utf-8"), what)
    except (OSError, UnicodeDecodeError) as error:
        raise TableError(f"{path.name} cannot be read: {error}") from error


def xpu_ops(folder: Path) -> XpuOps:
    """The facts of a checkout of torch-xpu-ops.

    Raises:
        TableError: a file of it is missing, or has another form.
    """
    fallback = from_file(folder / OPS_FALLBACK, "").text
    listed = _FALLBACKS.search(fallback)
    if listed is None:
        raise TableError(f"{OPS_FALLBACK} has no list of fallbacks as it is known here")
    names = re.findall(r'"([A-Za-z_]\w*(?:\.\w+)?)"', listed[1])
    what = "yaml/native/native_functions.yaml of torch-xpu-ops"
    return XpuOps(from_file(folder / OPS_YAML, what), frozenset(f"aten::{name}" for name in names))
