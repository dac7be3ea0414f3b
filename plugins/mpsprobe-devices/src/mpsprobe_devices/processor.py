"""The processor's name as people know it: ``platform.processor()`` says ``arm`` or ``x86_64`` on most systems."""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Callable
from functools import partial

from mpsprobe_devices.commands import ask

REGISTRY_KEY = r"HARDWARE\DESCRIPTION\System\CentralProcessor\0"
MODEL = re.compile(r"^\s*model name\s*:[^\S\n]*(?!-\s*$)(\S.*)$", re.IGNORECASE | re.MULTILINE)  # as lscpu prints it
MOST_CHARACTERS = 100


def processor_name() -> str:
    """The first name that a source tells: the system, torch's library for it, lscpu; else the architecture."""
    sysctl = partial(ask, ["sysctl", "-n", "machdep.cpu.brand_string"])
    own = {"Darwin": sysctl, "Windows": _registry}.get(platform.system())
    sources: list[Callable[[], object]] = [own] if own is not None else []
    sources += [lambda: capabilities().get("cpu_name"), _lscpu, platform.processor, platform.machine]
    for source in sources:
        name = " ".join(str(source() or "").split())[:MOST_CHARACTERS]
        if name and name.lower() != "unknown":
            return name
    return "CPU"


def _registry() -> str | None:
    # On other systems there is no such module, and mypy knows no attribute of it.
    try:
        import winreg

        with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, REGISTRY_KEY) as key:  # type: ignore[attr-defined,unused-ignore]
            return str(winreg.QueryValueEx(key, "ProcessorNameString")[0])  # type: ignore[attr-defined,unused-ignore]
    except (ImportError, OSError):
        return None


def _lscpu() -> str | None:
    model = MODEL.search(ask(["lscpu"]) or "")
    return model[1] if model else None


def capabilities() -> dict[str, object]:
    """What ``torch.cpu.get_capabilities`` tells, in the releases that have it; else nothing."""
    torch = sys.modules.get("torch")  # a program of another framework need not import it for a name
    get = getattr(torch.cpu, "get_capabilities", None) if torch is not None else None
    try:
        return dict(get()) if get is not None else {}
    except RuntimeError:  # where the library knows no such processor
        return {}
