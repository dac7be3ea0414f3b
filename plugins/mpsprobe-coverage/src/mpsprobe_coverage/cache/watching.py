"""Sees what a run reads: files, folders, modules, variables, and what makes its answer one that cannot be kept.

Python's audit events say what is opened, listed, started and connected to. Files of installed distributions are left
out: their versions are among what every answer depends on.
"""

# ruff: noqa: PTH100, PTH117, PTH118, PTH119, PTH120
from __future__ import annotations

import ast
import contextlib
import importlib
import os
import random
import sys
import threading
import time
import tokenize
from collections.abc import Iterator
from types import FrameType
from typing import Any

from mpsprobe_coverage.cache.evidence import MODULES, MOST_FILES, NAMES, Evidence, listing, stamp, values_of
from mpsprobe_coverage.cache.surroundings import LIBRARIES

PACKAGES = ("site-packages", "dist-packages")
NETWORK = frozenset({"socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"})
STARTS = ("exec", "fork", "forkpty", "posix_spawn", "spawn", "system")
PROCESSES = frozenset({"pty.spawn", "subprocess.Popen", *(f"os.{name}" for name in STARTS)})
CLOCKS = frozenset({"datetime", "secrets", "time", "uuid"})
"""Modules by which code of a user's file gives another answer each time."""
WEIGHTS = (".bin", ".ckpt", ".gguf", ".h5", ".npy", ".npz", ".onnx", ".pt", ".pth", ".safetensors")
"""Files that libraries open without Python: those next to a file that was read count as read."""
SESSION = frozenset({
    "_", "COLUMNS", "LINES", "OLDPWD", "PS1", "PWD", "SHLVL", "SSH_CLIENT", "SSH_CONNECTION", "SSH_TTY", "TERM",
    "TERM_SESSION_ID", "WINDOWID",
})  # fmt: skip
"""Variables that differ from one terminal to the next."""
OF_SYSTEM = tuple(f"/{name}/" for name in ("dev", "proc", "sys"))
"""Where Linux has what are no files; other systems have at most the first."""
SLACK_NS = 20_000_000
"""The coarsest time stamps of usual file systems: a file as new as that may have changed since it was read."""
_active: list[Watch] = []
_inside = threading.local()
_is_installed = False


class Watch:
    """What is read inside ``with Watch(…)``.

    Args:
        own: whether code of the user's takes part: then it may read variables, draw random numbers, start processes.
        earlier: of the same process, around other code of the user's: what it imported and read is not read again.

    Attributes:
        refusal: why the answer cannot be kept, in words; ``None`` where it can.
    """

    def __init__(self, own: bool, earlier: Watch | None = None) -> None:
        self.own = own
        self.refusal: str | None = earlier.refusal if earlier else None
        self._opened: dict[str, None] = dict(earlier._opened) if earlier else {}
        self._listed: dict[str, None] = dict(earlier._listed) if earlier else {}
        self._variables: dict[str, None] = dict(earlier._variables) if earlier else {}
        self._modules: set[str] = earlier._modules if earlier else set(sys.modules)
        self._started: int = earlier._started if earlier else time.time_ns() - SLACK_NS
        self._roots = _installed_roots()
        self._packages = _package_roots()
        self._outside: dict[str, bool] = {}

    def __enter__(self) -> Watch:
        self._drawn = random.getstate()
        self._drawn_by_numpy = _numpy_state() if self.own else None
        self._undo = contextlib.ExitStack()
        if self.own:
            self._undo.enter_context(_variables_are_seen(self))
            self._undo.enter_context(_entropy_is_seen(self))
        _install()
        _active.append(self)
        return self

    def __exit__(self, *raised: object) -> None:
        _active.remove(self)
        self._undo.close()

    def refuse(self, why: str) -> None:
        """Say that the answer cannot be kept."""
        self.refusal = self.refusal or why

    def add_folder(self, path: str) -> None:
        """Count every file below ``path``, a folder that is the workload: not all is read by Python."""
        for folder, folders, files in os.walk(path):
            folders[:] = [one for one in folders if not one.startswith(".")]
            self._listed[folder] = None
            self._opened |= dict.fromkeys(os.path.join(folder, one) for one in files)
            if len(self._opened) > MOST_FILES:
                return

    def evidence(self) -> Evidence:
        """What was read, as it is now; ``refuse``s what changed meanwhile."""
        paths = dict.fromkeys((*self._opened, *self._of_modules()))
        if self.own:
            self._check_randomness()
        if len(paths) > MOST_FILES:
            self.refuse(f"it read more than {MOST_FILES:,} files")
            return Evidence()
        files = {path: stamp(path) for path in paths}
        for path, found in files.items():
            if found is not None and max(found[1], found[2]) >= self._started:
                self.refuse(f"{path} changed while it was read")
        folders = {path: (NAMES, listing(path, NAMES)) for path in self._listed}
        for path in paths:
            if path.endswith(".py") and self._is_users(path):
                folders.setdefault(os.path.dirname(path), (MODULES, listing(os.path.dirname(path), MODULES)))
                self._check_source(path)
        names = tuple(sorted(self._variables.keys() - SESSION))
        return Evidence(files, folders, names, values_of(names))

    def event(self, name: str, arguments: tuple[Any, ...]) -> None:
        """What Python's audit hook is called with."""
        if name == "open":
            self._open(*arguments)
        elif name in ("os.listdir", "os.scandir"):
            caller = sys._getframe(2).f_globals.get("__name__", "")
            if not caller.startswith(("importlib", "pkgutil", "mpsprobe_coverage.cache")):
                path = _absolute(arguments[0] or ".")
                if path and self._is_outside(path) and not path.startswith(OF_SYSTEM):
                    self._listed[path] = None
        elif name in NETWORK:
            self.refuse("it used the network")
        elif name in PROCESSES and self.own and self._is_by_user():
            self.refuse("it started a process")

    def variable(self, name: object) -> None:
        """A variable was read; counts where the user's own code read it."""
        if self._is_by_user():
            self._variables[name.decode(errors="replace") if isinstance(name, bytes) else str(name)] = None

    def _open(self, path: Any, mode: str | None, flags: int) -> None:
        written = flags & (os.O_WRONLY | os.O_EXCL | os.O_TRUNC)
        name = None if written else _absolute(path)
        if name is None:
            return
        if name.startswith(OF_SYSTEM):
            if self.own and self._is_by_user():
                self.refuse(f"it read {name}")
            return
        if name.endswith(".pyc"):
            return  # its module is among those that are imported
        if self._is_outside(name):
            self._opened[name] = None
            if not name.endswith(".py"):
                self._opened |= dict.fromkeys(_weights_next_to(name))

    def _of_modules(self) -> Iterator[str]:
        """The files of what was imported meanwhile, of mpsprobe and its plugins, and of the libraries of models."""
        for name, module in list(sys.modules.items()):
            file = getattr(module, "__file__", None)
            if not isinstance(file, str) or not os.path.isabs(file) or not self._is_outside(file):
                continue  # torch.ops, no file: its __file__ is "_ops.py"
            if name not in self._modules or name.partition(".")[0] in LIBRARIES or file.startswith(self._packages):
                yield file

    def _is_outside(self, path: str) -> bool:
        """Whether ``path`` is no part of an installed distribution or of Python."""
        folder = os.path.dirname(path)
        if folder not in self._outside:
            self._outside[folder] = not (folder + os.sep).startswith(self._roots)
        return self._outside[folder]

    def _is_users(self, path: str) -> bool:
        return self.own and not path.startswith(self._packages) and self._is_outside(path)

    def _is_by_user(self) -> bool:
        """Whether the user's code asks, itself or through a library's function, and not the import of a library."""
        frame: FrameType | None = sys._getframe(2)
        while frame is not None:
            file = frame.f_code.co_filename
            if file.startswith("<frozen importlib"):
                return False
            if not file.startswith("<") and self._is_users(os.path.abspath(file)):
                return True
            frame = frame.f_back
        return False

    def _check_randomness(self) -> None:
        if random.getstate() != self._drawn:
            self.refuse("it drew random numbers")
        if _numpy_state() != self._drawn_by_numpy:
            self.refuse("it drew random numbers of numpy")

    def _check_source(self, path: str) -> None:
        """Refuse code that reads the clock, or begins random numbers anew: neither has an event."""
        try:
            with tokenize.open(path) as file:
                tree = ast.parse(file.read())
        except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
            self.refuse(f"{path} cannot be read")
            return
        for node in ast.walk(tree):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            names += [one.name for one in node.names] if isinstance(node, ast.Import) else []
            if used := CLOCKS.intersection(name.partition(".")[0] for name in names):
                self.refuse(f"{path} uses {min(used)}")
            called = node.func if isinstance(node, ast.Call) and not (node.args or node.keywords) else None
            if getattr(called, "attr", getattr(called, "id", "")) == "seed":
                self.refuse(f"{path} draws random numbers without a seed")


def _installed_roots() -> tuple[str, ...]:
    """Python's own library, and the folders in which ``pip`` installs."""
    found = [os.path.dirname(os.path.abspath(os.__file__)), *(os.path.abspath(one) for one in sys.path)]
    return tuple(one + os.sep for one in found[:1] + [one for one in found if os.path.basename(one) in PACKAGES])


def _package_roots() -> tuple[str, ...]:
    """The folders of the packages of mpsprobe and its plugins."""
    names = {one.partition(".")[0] for one in sys.modules if one.startswith("mpsprobe")}
    found = (path for name in names for path in getattr(sys.modules[name], "__path__", ()))
    return tuple(os.path.abspath(path) + os.sep for path in found)


def _numpy_state() -> str | None:
    """That of numpy's own generator, which is another in each process."""
    try:
        numpy: Any = importlib.import_module("numpy.random")
    except ImportError:
        return None
    return repr([part.tolist() if hasattr(part, "tolist") else part for part in numpy.get_state()])


def _absolute(path: Any) -> str | None:
    try:
        return None if isinstance(path, int) else os.path.abspath(os.fsdecode(path))
    except (TypeError, ValueError, OSError):
        return None


def _weights_next_to(path: str) -> Iterator[str]:
    folder = os.path.dirname(path)
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        yield from (one.path for one in entries if one.name.endswith(WEIGHTS))


@contextlib.contextmanager
def _variables_are_seen(watch: Watch) -> Iterator[None]:
    kind: Any = type(os.environ)
    item, names = kind.__getitem__, kind.__iter__

    def read(self: Any, key: Any) -> Any:
        watch.variable(key)
        return item(self, key)

    def each(self: Any) -> Any:
        for key in [*names(self)]:
            watch.variable(key)
        return names(self)

    kind.__getitem__, kind.__iter__ = read, each
    try:
        yield
    finally:
        kind.__getitem__, kind.__iter__ = item, names


@contextlib.contextmanager
def _entropy_is_seen(watch: Watch) -> Iterator[None]:
    """``SystemRandom``, and what numpy begins with where no seed is given."""
    module: Any = random
    real = module._urandom

    def drawn(size: int) -> bytes:
        if watch._is_by_user():
            watch.refuse("it drew random numbers without a seed")
        return bytes(real(size))

    module._urandom = drawn
    try:
        yield
    finally:
        module._urandom = real


def _install() -> None:
    """A hook cannot be taken away again; without a watch it does nothing."""
    global _is_installed
    if not _is_installed:
        sys.addaudithook(_hook)
        _is_installed = True


def _hook(name: str, arguments: tuple[Any, ...]) -> None:
    if not _active or (name != "open" and name not in EVENTS) or getattr(_inside, "hook", False):
        return
    _inside.hook = True  # what is done in here is not looked at
    try:
        for watch in tuple(_active):
            watch.event(name, arguments)
    except Exception:  # noqa: BLE001 - an event must go on, whatever its arguments are
        for watch in tuple(_active):
            watch.refuse("it could not be followed")
    finally:
        _inside.hook = False


EVENTS = frozenset({"os.listdir", "os.scandir", *NETWORK, *PROCESSES})
