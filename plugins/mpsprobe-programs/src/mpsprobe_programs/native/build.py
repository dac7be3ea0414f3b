"""Compiles what is in C++ once for each torch, compiler and source, and keeps what came out."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import torch

from mpsprobe.errors import UsageError
from mpsprobe.suggestions import printable

HERE = Path(__file__).parent
# Classes of torch's headers have other members without NDEBUG, with which torch itself is compiled.
FLAGS = ("/O2", "/DNDEBUG") if sys.platform == "win32" else ("-O2", "-g0", "-DNDEBUG")
_BUILD = f"""
import sys
from torch.utils.cpp_extension import load
name, folder, *sources = sys.argv[1:]
load(name, sources, extra_cflags={list(FLAGS)}, build_directory=folder, is_python_module=False)
"""


class Library(NamedTuple):
    """What is compiled into one file.

    Attributes:
        name: a part of the file's name.
        label: as messages call it.
        sources: paths.
        headers: those that belong to them.
        without: what happens where there is no compiler, in words.
    """

    name: str
    label: str
    sources: tuple[Path, ...]
    headers: tuple[Path, ...]
    without: str


DEVICE = Library(
    "mpsprobe_device",
    "native device",
    tuple(HERE / name for name in ("device.cpp", "kernel.cpp", "calls.cpp")),
    (HERE / "device.h",),
    "the device in Python serves, more slowly",
)


def built(library: Library = DEVICE) -> Path:
    """The compiled ``library`` for the installed torch, built if it is not there yet.

    Raises:
        UsageError: there is no compiler, or it fails; the message has its last words.
    """
    target = cached(library)
    if target.is_file():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        # In a process of its own: torch loads what it builds, and a process can load the device only once.
        done = subprocess.run(
            [sys.executable, "-c", _BUILD, target.stem, folder, *map(str, library.sources)],
            capture_output=True, text=True, errors="replace", check=False, env={**os.environ, "PATH": _path()},
        )  # fmt: skip
        made = Path(folder) / target.name
        if done.returncode != 0 or not made.is_file():
            raise UsageError(
                f"the {library.label} cannot be built: {_reason(done.stdout + done.stderr)}",
                f"Install a C++ compiler; without one {library.without}.",
            )
        os.replace(made, target)  # noqa: PTH105 - two processes may build at once; either result will do
    return target


def cached(library: Library = DEVICE) -> Path:
    """Where the compiled ``library`` for the installed torch is, or will be."""
    known = hashlib.sha256()
    for source in (*library.sources, *library.headers):
        known.update(source.read_bytes())
    known.update(repr((FLAGS, torch.__version__, _compiler(), platform.machine())).encode())
    suffix = ".pyd" if sys.platform == "win32" else ".so"
    return _cache_folder() / f"{library.name}_{known.hexdigest()[:16]}{suffix}"


def _path() -> str:
    """With the folder of the running Python, where ninja is in an environment that is not active."""
    return os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])


def _reason(output: str) -> str:
    """What the compiler says is wrong; where no line of it says so, the first that names an error, Python's too."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    compilers = (line for line in lines if "error: " in line or "error C" in line)
    any_error = (line for line in lines if "error" in line.lower())
    return printable(next(compilers, next(any_error, lines[-1] if lines else "no reason")))


def _compiler() -> str:
    name = os.environ.get("CXX") or ("cl" if sys.platform == "win32" else "c++")
    return shutil.which(name) or name


def _cache_folder() -> Path:
    if sys.platform == "win32":
        root = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        root = Path.home() / "Library" / "Caches"
    else:
        root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return root / "mpsprobe"
