"""How much memory the process takes: macOS against a double of its function, the rest for real."""

from __future__ import annotations

import ctypes
import mmap
import os
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import psutil
import pytest

from mpsprobe_devices import footprint
from mpsprobe_devices.footprint import RusageInfo, footprint_reader


def _library(size: int, result: int = 0) -> SimpleNamespace:
    """``proc_pid_rusage`` as <libproc.h> declares it: fills the structure, returns 0, or -1 and nothing."""

    def answer(pid: int, flavour: int, buffer: int) -> int:
        del pid, flavour
        if not result:
            RusageInfo.from_address(buffer).ri_phys_footprint = size
            RusageInfo.from_address(buffer).ri_resident_size = 1
        return result

    return SimpleNamespace(proc_pid_rusage=Mock(side_effect=answer))


def test_on_macos_it_is_the_physical_footprint() -> None:
    # struct rusage_info_v0: a uuid of 16 bytes and ten numbers of eight; the footprint is the eighth of them.
    assert ctypes.sizeof(RusageInfo) == 16 + 10 * 8 < footprint.ROOM
    assert RusageInfo.ri_phys_footprint.offset == 16 + 7 * 8
    library = _library(18 * 10**9)
    function, read = library.proc_pid_rusage, footprint_reader("Darwin", library)
    assert read() == 18 * 10**9 and read() == 18 * 10**9
    assert [call.args[:2] for call in function.call_args_list] == [(os.getpid(), 0)] * 2
    assert function.argtypes == [ctypes.c_int, ctypes.c_int, ctypes.c_void_p] and function.restype is ctypes.c_int
    with pytest.raises(OSError, match="proc_pid_rusage ended with -1"):
        footprint_reader("Darwin", _library(5, result=-1))()


@pytest.mark.parametrize(("system", "library"), [("Linux", None), ("Windows", None), ("Darwin", SimpleNamespace())])
def test_elsewhere_it_is_the_resident_set(system: str, library: Any) -> None:
    read = footprint_reader(system, library)
    before = read()
    with mmap.mmap(-1, 64 * 2**20) as fresh:  # what malloc has kept of earlier tests is resident already
        for page in range(0, len(fresh), mmap.PAGESIZE):
            fresh[page] = 1
        assert read() - before > 32 * 2**20
    assert 0.5 < read() / psutil.Process().memory_info().rss < 2
