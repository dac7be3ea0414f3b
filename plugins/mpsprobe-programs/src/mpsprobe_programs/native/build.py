"""The compiled device: the wheel's own, or one that is compiled once for each torch, compiler and source, and kept.

What is compiled depends on torch's minor version and on the platform, and not on Python. Wheels of a platform hold one
for each minor version; ``python -m mpsprobe_programs.native.build`` puts the one for the installed torch where they do.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from packaging.version import Version

from mpsprobe.errors import UsageError
from mpsprobe.suggestions import printable

HERE = Path(__file__).parent
SOURCES = tuple(HERE / name for name in ("device.cpp", "kernel.cpp", "calls.cpp", "derivatives.cpp"))
SUFFIX = ".pyd" if sys.platform == "win32" else ".so"
FLAGS = ("/O2",) if sys.platform == "win32" else ("-O2", "-g0")
_BUILD = f"""
import sys
from torch.utils.cpp_extension import load
name, folder, *sources = sys.argv[1:]
load(name, sources, extra_cflags={list(FLAGS)}, build_directory=folder, is_python_module=False)
"""


def load() -> None:
    """Load the device into this process, building it if need be.

    Raises:
        UsageError: as ``built``.
    """
    if shipped().is_file():
        try:
            torch.ops.load_library(str(shipped()))
            return
        except OSError:  # a torch that was built in another way than those on the package index
            pass
    torch.ops.load_library(str(built()))


def shipped() -> Path:
    """Where a wheel of this platform has the device for the installed torch; other wheels have none."""
    torch_version = Version(torch.__version__)
    return HERE / "compiled" / f"device-{torch_version.major}.{torch_version.minor}{SUFFIX}"


def built() -> Path:
    """The device compiled here for the installed torch; about half a minute, the first time.

    Raises:
        UsageError: there is no compiler, or it fails; the message has its last words.
    """
    target = cached()
    if target.is_file():
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"no folder for the native device: {error}", "XDG_CACHE_HOME names another one.") from error
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
    return _cache_folder() / f"mpsprobe_device_{known.hexdigest()[:16]}{SUFFIX}"


def _reason(output: str) -> str:
    """The first line that says what is wrong, which every compiler begins with ``error:``, or ``error C1234:``."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return printable(next((line for line in lines if re.search(r"\berror( \w+)?:", line)), lines[-1] if lines else "no reason"))


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


if __name__ == "__main__":
    shipped().parent.mkdir(exist_ok=True)
    shutil.copyfile(built(), shipped())
