"""What is in C++: the wheel's own compiled file, or one that is compiled once for each torch, compiler and source.

Nothing else is compiled on a user's machine in another way: ``made_once`` is for kernels of Metal too.

What is compiled depends on torch's minor version and on the platform, and not on Python. Wheels of a platform hold it
for each minor version: ``python -m mpsprobe_coverage.devices.compiling`` puts it there for the installed torch.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from filelock import FileLock
from packaging.version import Version

from mpsprobe.answers.folder import is_own, make_private, user_folder
from mpsprobe.errors import UsageError
from mpsprobe.output import TemporaryFolder
from mpsprobe.suggestions import printable

HERE = Path(__file__).parent
SUFFIX = ".pyd" if sys.platform == "win32" else ".so"
# Classes of torch's headers have other members without NDEBUG, with which torch itself is compiled.
FLAGS = ("/O2", "/DNDEBUG") if sys.platform == "win32" else ("-O2", "-g0", "-DNDEBUG")
# Its end of the pipe closes when the process that waits for it ends, however that ends. ninja passes on SIGTERM.
_BUILD = f"""
import os, signal, sys, threading
def end():
    os.read(0, 1)
    os.killpg(0, signal.SIGTERM) if hasattr(os, "killpg") else os._exit(1)
threading.Thread(target=end, daemon=True).start()
from torch.utils.cpp_extension import load
name, folder, *sources = sys.argv[1:]
load(name, sources, extra_cflags={list(FLAGS)}, build_directory=folder, is_python_module=False)
"""

_ON_A_MAC = " (xcode-select --install)" if sys.platform == "darwin" else ""


class Library(NamedTuple):
    name: str
    folder: str  # where its sources are, below this one
    without: str  # what happens where there is no compiler

    @property
    def sources(self) -> list[Path]:
        return sorted((HERE / self.folder).glob("*.cpp"))

    @property
    def shipped(self) -> Path:
        """Where a wheel of this platform has it for the installed torch; other wheels have nothing there."""
        torch_version = Version(torch.__version__)
        return HERE / "compiled" / f"{self.name}-{torch_version.major}.{torch_version.minor}{SUFFIX}"

    @property
    def kept(self) -> Path:
        digest = hashlib.sha256()
        for source in (*self.sources, *sorted((HERE / self.folder).glob("*.h")), *sorted(HERE.glob("*.h"))):
            digest.update(source.read_bytes())
        digest.update(repr((FLAGS, *toolchain())).encode())
        return Path(user_folder(), "compiled", f"mpsprobe_{self.name}_{digest.hexdigest()[:16]}{SUFFIX}")

    @property
    def is_there(self) -> bool:
        return self.shipped.is_file() or is_own_file(self.kept)

    def load(self) -> None:
        if self.shipped.is_file():
            try:
                torch.ops.load_library(str(self.shipped))
                return
            except OSError:  # a torch that was built in another way than those on the package index
                pass
        torch.ops.load_library(str(self.compile()))

    def compile(self) -> Path:
        """The file compiled here for the installed torch; about half a minute, the first time.

        ``UsageError`` as of ``made_once``, and where there is no compiler, or it fails.
        """
        return made_once(self.kept, self._build)

    def _build(self, library: Path) -> None:
        code, output = 1, f"error: there is no {compiler()}"
        if shutil.which(compiler()) is not None:
            code, output = _built(library.stem, library.parent, self.sources)
        if code != 0 or not library.is_file():
            raise UsageError(
                f"the {self.name} cannot be built: {reason_of(output)}",
                f"Install a C++ compiler{_ON_A_MAC}; without one {self.without}.",
            )


def made_once(target: Path, build: Callable[[Path], None]) -> Path:
    """``target``, in the folder of what is compiled: as it is there, or as ``build`` makes it in a folder of its own.

    What another user wrote, or may write, is never loaded: it would run as this one. ``UsageError`` where that is so,
    or nothing can be written.
    """
    compiled = target.parent
    try:
        make_private(str(compiled))
        if not is_own(str(compiled)):
            raise UsageError(
                f"others may write to {compiled} or the folder around it, or one is a link: nothing is loaded from "
                "there",
                "Make both yours alone (chmod 700), or name another folder in XDG_CACHE_HOME.",
            )
        if not is_own_file(target):
            with FileLock(compiled / "compiling.lock"):  # of several processes that need it, one compiles
                if not is_own_file(target):
                    _make(target, build)
    except OSError as error:
        hint = "Make room there, or name another folder in XDG_CACHE_HOME."
        raise UsageError(f"nothing can be compiled into {compiled}: {error.strerror or error}", hint) from error
    return target


def _make(target: Path, build: Callable[[Path], None]) -> None:
    with TemporaryFolder(target.parent) as folder:
        made = Path(folder, target.name)
        build(made)
        made.chmod(0o700)
        made.replace(target)  # whole or not at all


def _built(name: str, folder: Path, sources: Sequence[Path]) -> tuple[int, str]:
    """The exit code of the build, and what it printed.

    In a separate process: torch loads what it builds, and a process can load it only once. Nothing is imported from the
    working folder there. The process group is its own, with the compilers, which end where this process is killed.
    """
    # ninja is next to the running Python in an environment that is not active.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    with subprocess.Popen(
        [sys.executable, "-P", "-c", _BUILD, name, str(folder), *map(str, sources)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        env={**os.environ, "PATH": path}, process_group=0,
    ) as build:  # fmt: skip
        assert build.stdout is not None
        output = build.stdout.read()
        return build.wait(), output


DEVICE = Library("device", "native", "the device in Python serves, more slowly")
OBSERVER = Library("observer", "observed", "nothing can be observed on a real device")


def reason_of(output: str) -> str:
    """What the compiler says is wrong; where no line of it says so, the first that names an error, Python's too."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    compilers = (line for line in lines if "error: " in line or "error C" in line)
    any_error = (line for line in lines if "error" in line.lower())
    return printable(next(compilers, next(any_error, lines[-1] if lines else "no reason")))


def compiler() -> str:
    name = os.environ.get("CXX") or ("cl" if sys.platform == "win32" else "c++")
    return shutil.which(name) or name


def toolchain() -> tuple[str, ...]:
    """For what a compiled file is kept: torch, the machine, and the compiler, however ``PATH`` leads to it."""
    return torch.__version__, os.path.realpath(compiler()), platform.machine()


def is_own_file(file: Path) -> bool:
    return file.is_file() and is_own(str(file))


if __name__ == "__main__":
    for one in (DEVICE, OBSERVER):
        one.shipped.parent.mkdir(exist_ok=True)
        shutil.copyfile(one.compile(), one.shipped)
