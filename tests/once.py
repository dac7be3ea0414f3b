"""Makes a thing that is expensive once for a whole run, however many processes of pytest-xdist share it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock

LIBRARY = """
import sys
from torch.utils.cpp_extension import load
name, source, folder = sys.argv[1:]
load(name, [source], build_directory=folder, extra_cflags=["-O0", "-DNDEBUG"], is_python_module=False)
"""


def built_once(base: Path, name: str, build: Callable[[Path], None]) -> Path:
    """The folder ``name`` of the run, which ``build`` filled in its first process; ``base`` is pytest's in this one."""
    shared = base.parent if base.name.startswith("popen-") else base
    folder = shared / f"once-{name}"
    with FileLock(shared / f"once-{name}.lock"):
        if not (folder / "done").exists():
            folder.mkdir(exist_ok=True)
            build(folder)
            (folder / "done").touch()
    return folder


def built_library(base: Path, source: Path) -> Path:
    """The library of one file of C++, for ``torch.ops.load_library``; this process does not load it."""
    name = f"mpsprobe_{source.stem}"
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])  # ninja is there

    def build(folder: Path) -> None:
        command = [sys.executable, "-c", LIBRARY, name, str(source), str(folder)]
        environment = {**os.environ, "PATH": path}
        ended = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        assert ended.returncode == 0, ended.stderr[-4000:]

    return built_once(base, name, build) / f"{name}.so"
