"""The processor's name as people know it: ``platform.processor()`` says ``arm`` or ``x86_64`` on most systems."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable

from mpsprobe_devices.commands import ask

REGISTRY_KEY = r"HARDWARE\DESCRIPTION\System\CentralProcessor\0"
MOST_CHARACTERS = 100


def processor_name() -> str:
    """The first name that a source tells: the system, torch's library for it, lscpu; else the architecture."""
    system = platform.system()
    sources: list[Callable[[], str | None]] = []
    if system == "Darwin":
        sources.append(_sysctl)
    if system == "Windows":
        sources.append(_registry)
    sources += [_torch, _lscpu, platform.processor, platform.machine]
    for source in sources:
        name = " ".join((source() or "").split())[:MOST_CHARACTERS]
        if name and name.lower() != "unknown":
            return name
    return "CPU"


def _sysctl() -> str | None:
    return ask(["sysctl", "-n", "machdep.cpu.brand_string"])


def _registry() -> str | None:
    try:
        import winreg
    except ImportError:  # not Windows
        return None
    # On the other systems mypy knows no attribute of it.
    try:
        with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, REGISTRY_KEY) as key:  # type: ignore[attr-defined,unused-ignore]
            return str(winreg.QueryValueEx(key, "ProcessorNameString")[0])  # type: ignore[attr-defined,unused-ignore]
    except OSError:
        return None


def capabilities() -> dict[str, object]:
    """What ``torch.cpu.get_capabilities`` tells, in the releases that have it; else nothing."""
    torch = sys.modules.get("torch")  # a program of another framework need not import it for a name
    ask = getattr(torch.cpu, "get_capabilities", None) if torch is not None else None
    try:
        return dict(ask()) if ask is not None else {}
    except RuntimeError:  # where the library knows no such processor
        return {}


def _torch() -> str | None:
    return str(capabilities().get("cpu_name") or "")


def _lscpu() -> str | None:
    for line in (ask(["lscpu"]) or "").splitlines():
        key, _, value = line.partition(":")
        if key.strip().lower() == "model name" and value.strip() not in ("", "-"):
            return value
    return None
