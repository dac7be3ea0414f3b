"""What every answer depends on, whatever was asked: the installed packages, Python, variables, plugins, kernel tables.

Nothing is imported for it. Of a package its version counts, and when it was installed; code that is edited in place
(``pip install -e``) is among the files of an answer (``evidence.py``).
"""

# ruff: noqa: PTH100, PTH118, PTH120
from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mpsprobe.plugins.registry import Registry

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
LIBRARIES = ("accelerate", "diffusers", "peft", "timm", "torch", "torchvision", "transformers")
"""Those that run models; their code counts where it is edited in place."""
HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DATA = tuple(os.path.join(HERE, room, "data") for room in ("advisories", "chips", "kernels"))
"""The folders of this distribution with the kernel tables, and with what else it knows."""


def digest(parts: Iterable[object]) -> str:
    """A name for ``parts``, the same for the same ones only."""
    import hashlib  # with OpenSSL it takes 3 ms, and not every question asks the cache

    found = hashlib.sha256()
    for part in parts:
        text = repr(part).encode("utf-8", "backslashreplace")
        found.update(b"%d:" % len(text))
        found.update(text)
    return found.hexdigest()[:40]


def surroundings(registry: Registry, own: bool) -> str:
    """The digest of all of it.

    Args:
        own: whether a file of the user's takes part, which may import from any folder that Python looks in.
    """
    return digest([_python(), *_variables(), *_plugins(registry), *_folders(own)])


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
    for plugin in registry.plugins():
        found = plugin.found
        yield found.name, found.distribution, found.version, found.target, found.file, plugin.status, plugin.hooks


def _folders(own: bool) -> Iterator[tuple[object, ...]]:
    """What is installed, in the order in which Python looks for it; then the tables.

    A folder without an installed distribution, such as that of a program, is one only if it hides a library.
    """
    for entry in dict.fromkeys(os.path.abspath(one) for one in sys.path):
        found = _stamps(entry, INSTALLED) or _stamps(entry, LIBRARIES)
        if found or own:
            yield entry, *found
    for folder in DATA:
        yield folder, *_stamps(folder)


def _stamps(folder: str, suffixes: tuple[str, ...] | None = None) -> list[tuple[object, ...]]:
    """Name, size and times of each entry whose name ends with one of ``suffixes``, or is one without its extension."""
    found = []
    try:
        with os.scandir(folder) as entries:
            for one in entries:
                stem = one.name.partition(".")[0]
                if suffixes is None or one.name.endswith(suffixes) or stem in suffixes:
                    with contextlib.suppress(OSError):  # a link that leads nowhere
                        found.append((one.name, one.stat()))
    except NotADirectoryError:  # a zip file
        found.append(("", os.stat(folder)))  # noqa: PTH116
    except OSError:
        return []
    return sorted((name, about.st_size, about.st_mtime_ns, about.st_ctime_ns) for name, about in found)
