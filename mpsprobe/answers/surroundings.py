"""What every answer depends on, whatever was asked: installed packages, Python, variables, plugins, own advisories.

Nothing is imported for it. Of a package its version counts, and when it was installed; of one that is edited in place
(``pip install -e``) every file.
"""

# ruff: noqa: PTH100, PTH112, PTH116, PTH118, PTH120, PTH206
from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable, Iterator

from mpsprobe.plugins.registry import Registry
from mpsprobe.settings import advisory_files

PREFIXES = (
    "ACCELERATE_", "ATEN_", "DIFFUSERS_", "HF_", "HUGGINGFACE_", "KERAS_", "MPSPROBE_", "PEFT_", "PYTORCH_", "TF_",
    "TIMM_", "TORCH", "TRANSFORMERS_", "USE_FLAX", "USE_HUB_", "USE_TF", "USE_TORCH",
)  # fmt: skip
"""What the names of variables begin with that these libraries read."""
NOT_OF_ANSWERS = {
    "MPSPROBE_DEBUG", "MPSPROBE_DISABLE_PLUGINS", "MPSPROBE_PLUGINS_DIR",
    "MPSPROBE_STRICT_PLUGINS", "MPSPROBE_TRACE_PLUGINS", "TORCHINDUCTOR_CACHE_DIR",
}  # fmt: skip
"""Those that say how a process goes; the plugins that it has are among what an answer depends on themselves. The last
one torch sets in its own process."""
INSTALLED = (".dist-info", ".egg-info", ".egg-link", ".pth")
"""What an installed distribution leaves next to its packages."""
PACKAGES = ("site-packages", "dist-packages")
LIBRARIES = ("accelerate", "diffusers", "peft", "timm", "torch", "torchvision", "transformers")
"""Those that run models."""
NO_SOURCE = ("__pycache__", "tests")
MOST_FILES = 20_000


def digest(parts: Iterable[object]) -> str:
    """A name for ``parts``, the same for the same ones only."""
    import hashlib  # with OpenSSL it takes 3 ms, and not every question asks the cache

    hashed = hashlib.sha256()
    for part in parts:
        text = repr(part).encode("utf-8", "backslashreplace")
        hashed.update(b"%d:" % len(text))
        hashed.update(text)
    return hashed.hexdigest()[:40]


def surroundings(registry: Registry) -> str:
    own = [(path, stamps(path)) for path in advisory_files()]
    return digest([_python(), *_variables(), *_plugins(registry), *_installed(), *own])


def stamps(path: str) -> list[tuple[object, ...]] | None:
    """Name, size and times of the file ``path``, or of every file below a folder; ``None`` for too many."""
    parts: list[tuple[object, ...]] = []
    if not os.path.isdir(path):
        with contextlib.suppress(OSError):
            parts.append((path, *_stamp(os.stat(path))))
    for at, folders, files in os.walk(path, followlinks=True):
        folders[:] = [name for name in folders if name not in NO_SOURCE and not name.startswith(".")]
        for file in (os.path.join(at, name) for name in files):
            with contextlib.suppress(OSError):  # a link that leads nowhere
                parts.append((file, *_stamp(os.stat(file))))
        if len(parts) + len(folders) > MOST_FILES:
            return None
    return sorted(parts)


def _python() -> tuple[object, ...]:
    system: tuple[object, ...] = (sys.platform,)
    if hasattr(os, "uname"):
        about = os.uname()
        system = (about.sysname, about.machine, about.release if sys.platform == "darwin" else "")
    elif hasattr(sys, "getwindowsversion"):
        system = (*sys.getwindowsversion()[:3], os.environ.get("PROCESSOR_ARCHITECTURE"))
    return (sys.version, sys.prefix, sys.flags.optimize, *system)


def _variables() -> Iterator[tuple[str, str]]:
    for name in sorted(os.environ):
        if name.startswith(PREFIXES) and name not in NOT_OF_ANSWERS and not name.endswith("_NO_CACHE"):
            yield name, os.environ[name]


def _plugins(registry: Registry) -> Iterator[tuple[object, ...]]:
    packages = {"mpsprobe", *LIBRARIES}
    for plugin in registry.plugins():
        origin = plugin.found
        yield origin.name, origin.distribution, origin.version, origin.target, origin.file, plugin.status, plugin.hooks
        if origin.file is not None:
            yield origin.name, stamps(str(origin.file))
        else:
            packages.add(origin.target.partition(".")[0].partition(":")[0])
    for package in sorted(packages):
        folder = _folder_of(package)
        if folder is not None and not any(part in folder.split(os.sep) for part in PACKAGES):
            yield package, stamps(folder)


def _folder_of(package: str) -> str | None:
    from importlib.util import find_spec

    try:
        spec = find_spec(package)
    except (ImportError, ValueError):
        return None
    return os.path.dirname(spec.origin) if spec is not None and spec.origin else None


def _installed() -> Iterator[tuple[object, ...]]:
    """What is installed, in the order in which Python looks for it.

    A folder without an installed distribution, such as that of a program, counts only if it hides a library.
    """
    for entry in dict.fromkeys(os.path.abspath(folder) for folder in sys.path):
        metadata = _named(entry, INSTALLED) or _named(entry, LIBRARIES)
        if metadata:
            yield entry, *metadata


def _named(folder: str, suffixes: tuple[str, ...]) -> list[tuple[object, ...]]:
    """Name, size and times of each entry whose name ends with one of ``suffixes``, or is one without its extension."""
    files: list[tuple[object, ...]] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.endswith(suffixes) or entry.name.partition(".")[0] in suffixes:
                    with contextlib.suppress(OSError):  # a link that leads nowhere
                        files.append((entry.name, *_stamp(entry.stat())))
    except NotADirectoryError:  # a zip file
        files.append(("", *_stamp(os.stat(folder))))
    except OSError:
        return []
    return sorted(files)


def _stamp(about: os.stat_result) -> tuple[int, int, int]:
    return about.st_size, about.st_mtime_ns, about.st_ctime_ns
