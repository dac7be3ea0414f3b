"""How much memory the process takes, by the figure that its system goes by.

On macOS that is the physical footprint, which Activity Monitor shows and memory pressure is judged by: the resident set
leaves out what was compressed and most of what the GPU's driver holds, and can be smaller by a factor of ten. It comes
from ``proc_pid_rusage`` of ``<libproc.h>``, whose structures ``<sys/resource.h>`` declares and versions; psutil has it
from version 8 (``memory_info_ex``), which is not out everywhere. Elsewhere it is the resident set, through psutil.
"""

from __future__ import annotations

import ctypes
import os
import platform
from collections.abc import Callable
from typing import Any

import psutil

RUSAGE_INFO_V0 = 0
ROOM = 1024  # bytes: ten times the structure, should a system ever write more of it
TIMES = ("ri_user_time", "ri_system_time", "ri_pkg_idle_wkups", "ri_interrupt_wkups", "ri_pageins")
SIZES = ("ri_wired_size", "ri_resident_size", "ri_phys_footprint", "ri_proc_start_abstime", "ri_proc_exit_abstime")


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
