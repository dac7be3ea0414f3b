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


class RusageInfo(ctypes.Structure):
    """``struct rusage_info_v0`` of macOS."""

    _fields_ = [
        ("ri_uuid", ctypes.c_uint8 * 16),
        ("ri_user_time", ctypes.c_uint64),
        ("ri_system_time", ctypes.c_uint64),
        ("ri_pkg_idle_wkups", ctypes.c_uint64),
        ("ri_interrupt_wkups", ctypes.c_uint64),
        ("ri_pageins", ctypes.c_uint64),
        ("ri_wired_size", ctypes.c_uint64),
        ("ri_resident_size", ctypes.c_uint64),
        ("ri_phys_footprint", ctypes.c_uint64),
        ("ri_proc_start_abstime", ctypes.c_uint64),
        ("ri_proc_exit_abstime", ctypes.c_uint64),
    ]


def footprint_reader(system: str | None = None, library: Any = None) -> Callable[[], int]:
    """A function that tells the bytes of this process.

    Args:
        system: as ``platform.system()`` names it.
        library: which has ``proc_pid_rusage``, on macOS; by default one that is loaded anyway.
    """
    if (system or platform.system()) == "Darwin":
        reader = _physical_footprint(ctypes.CDLL(None) if library is None else library)
        if reader is not None:
            return reader
    process = psutil.Process()
    return lambda: int(process.memory_info().rss)


def _physical_footprint(library: Any) -> Callable[[], int] | None:
    try:
        function = library.proc_pid_rusage
    except AttributeError:
        return None
    function.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_void_p]
    function.restype = ctypes.c_int
    buffer = ctypes.create_string_buffer(ROOM)
    found = RusageInfo.from_buffer(buffer)

    def read() -> int:
        failed = function(os.getpid(), RUSAGE_INFO_V0, ctypes.addressof(buffer))
        if failed:
            raise OSError(f"proc_pid_rusage ended with {failed}")
        return int(found.ri_phys_footprint)

    return read
