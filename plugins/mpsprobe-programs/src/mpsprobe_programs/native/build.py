"""Compiles the device once for each torch, compiler and source, and keeps what came out."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

from mpsprobe.errors import UsageError
from mpsprobe.suggestions import printable

HERE = Path(__file__).parent
SOURCES = tuple(HERE / name for name in ("device.cpp", "kernel.cpp", "calls.cpp", "derivatives.cpp"))
FLAGS = ("/O2",) if sys.platform == "win32" else ("-O2", "-g0")
_BUILD = f"""
import sys
from torch.utils.cpp_extension import load
name, folder, *sources = sys.argv[1:]
load(name, sources, extra_cflags={list(FLAGS)}, build_directory=folder, is_python_module=False)
"""


def built() -> Path:
    """The compiled device for the installed torch, built if it is not there yet.

    Raises:
        UsageError: there is no compiler, or it fails; the message has its last words.
    """
    target = cached()
    if target.is_file():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        # In a process of its own: torch loads what it builds, and a process can load the device only once.
        done = subprocess.run(
            [sys.executable, "-c", _BUILD, target.stem, folder, *map(str, SOURCES)],
            capture_output=True, text=True, errors="replace", check=False,
        )  # fmt: skip
        made = Path(folder) / target.name
        if done.returncode != 0 or not made.is_file():
            raise UsageError(
                f"the native device cannot be built: {_reason(done.stdout + done.stderr)}",
                "Install a C++ compiler; without one the device in Python serves, more slowly.",
            )
        os.replace(made, target)  # noqa: PTH105 - two processes may build at once; either result will do
    return target


def cached() -> Path:
    """Where the compiled device for the installed torch is, or will be."""
    known = hashlib.sha256()
    for source in (*SOURCES, HERE / "device.h"):
        known.update(source.read_bytes())
    known.update(repr((FLAGS, torch.__version__, _compiler(), platform.machine())).encode())
    suffix = ".pyd" if sys.platform == "win32" else ".so"
    return _cache_folder() / f"mpsprobe_device_{known.hexdigest()[:16]}{suffix}"


def _reason(output: str) -> str:
    """The first line that says what is wrong; compilers and Python both write ``error``."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return printable(next((line for line in lines if "error" in line.lower()), lines[-1] if lines else "no reason"))


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
