"""Facts about a machine, found without torch: its processor's name, and how much memory the process takes.

``platform.processor()`` says ``arm`` or ``x86_64`` on most systems.

On macOS the memory of a process is the physical footprint, which Activity Monitor shows and memory pressure is judged
by: the resident set leaves out what was compressed and most of what the GPU's driver holds, and can be smaller by a
factor of ten. It comes from ``proc_pid_rusage`` of ``<libproc.h>``, whose structures ``<sys/resource.h>`` declares and
versions; psutil has it from version 8 (``memory_info_ex``), which is not out everywhere. Elsewhere it is the resident
set, through psutil.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import psutil

TIMEOUT_S = 5.0  # for a tool of the system
MOST_PRINTED = 10_000  # characters of its output
REGISTRY_KEY = r"HARDWARE\DESCRIPTION\System\CentralProcessor\0"
MODEL = re.compile(r"^\s*model name\s*:[^\S\n]*(?!-\s*$)(\S.*)$", re.IGNORECASE | re.MULTILINE)  # as lscpu prints it
LONGEST_NAME = 100  # of a processor
RUSAGE_INFO_V0 = 0
ROOM = 1024  # bytes: ten times the structure, should a system ever write more of it
TIMES = ("ri_user_time", "ri_system_time", "ri_pkg_idle_wkups", "ri_interrupt_wkups", "ri_pageins")
SIZES = ("ri_wired_size", "ri_resident_size", "ri_phys_footprint", "ri_proc_start_abstime", "ri_proc_exit_abstime")


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes: what tensors hold, and what the allocator has taken for them; ``None`` where the device does not tell."""

    allocated: int | None
    reserved: int | None


def ask(command: list[str]) -> str | None:
    """What ``command`` prints, without blanks around it; ``None`` if it is not there, fails, hangs or says nothing."""
    nothing = subprocess.DEVNULL
    try:
        printed = subprocess.check_output(command, stdin=nothing, stderr=nothing, timeout=TIMEOUT_S)
    except (OSError, subprocess.SubprocessError):
        return None
    return printed.decode("utf-8", "replace")[:MOST_PRINTED].strip() or None


def processor_name() -> str:
    """The first name that a source tells: the system, torch's library for it, lscpu; else the architecture."""
    sysctl = partial(ask, ["sysctl", "-n", "machdep.cpu.brand_string"])
    own: dict[str, Callable[[], object]] = {"Darwin": sysctl, "Windows": _registry}
    common = (lambda: capabilities().get("cpu_name"), _lscpu, platform.processor, platform.machine)
    for source in (own.get(platform.system(), str), *common):
        name = " ".join(str(source() or "").split())[:LONGEST_NAME]
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


class RusageInfo(ctypes.Structure):
    """``struct rusage_info_v0`` of macOS."""

    _fields_ = [("ri_uuid", ctypes.c_uint8 * 16), *((name, ctypes.c_uint64) for name in (*TIMES, *SIZES))]


def footprint_reader(system: str | None = None, library: Any = None) -> Callable[[], int]:
    """A function that tells the bytes of this process; on macOS ``library`` has ``proc_pid_rusage``."""
    function = None
    if (system or platform.system()) == "Darwin":
        function = getattr(ctypes.CDLL(None) if library is None else library, "proc_pid_rusage", None)
    if function is None:
        process = psutil.Process()
        return lambda: int(process.memory_info().rss)
    function.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_void_p]
    function.restype = ctypes.c_int
    buffer = ctypes.create_string_buffer(ROOM)
    info = RusageInfo.from_buffer(buffer)

    def read() -> int:
        failed = function(os.getpid(), RUSAGE_INFO_V0, ctypes.addressof(buffer))
        if failed:
            raise OSError(f"proc_pid_rusage ended with {failed}")
        return int(info.ri_phys_footprint)

    return read
