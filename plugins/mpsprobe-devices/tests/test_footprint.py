"""How much memory the process takes: macOS against a double of its function, the rest for real."""

from __future__ import annotations

import ctypes
import mmap
import os
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from mpsprobe_devices import footprint
from mpsprobe_devices.footprint import RusageInfo, footprint_reader


class _Rusage:
    """``proc_pid_rusage`` as <libproc.h> declares it: fills the structure, returns 0, or -1 and nothing."""

    def __init__(self, size: int, result: int = 0) -> None:
        self.size, self.result = size, result
        self.asked: list[tuple[int, int]] = []
        self.argtypes: Any = None
        self.restype: Any = None

    def __call__(self, pid: int, flavour: int, buffer: int) -> int:
        self.asked.append((pid, flavour))
        if not self.result:
            RusageInfo.from_address(buffer).ri_phys_footprint = self.size
            RusageInfo.from_address(buffer).ri_resident_size = 1
        return self.result


def test_the_structure_is_that_of_the_header() -> None:
    # struct rusage_info_v0: a uuid of 16 bytes and ten numbers of eight; the footprint is the eighth of them.
    assert ctypes.sizeof(RusageInfo) == 16 + 10 * 8 < footprint.ROOM
    assert RusageInfo.ri_phys_footprint.offset == 16 + 7 * 8


def test_on_macos_it_is_the_physical_footprint() -> None:
    function = _Rusage(18 * 10**9)
    read = footprint_reader("Darwin", SimpleNamespace(proc_pid_rusage=function))
    assert read() == 18 * 10**9 and read() == 18 * 10**9
    assert function.asked == [(os.getpid(), 0)] * 2
    assert function.argtypes == [ctypes.c_int, ctypes.c_int, ctypes.c_void_p] and function.restype is ctypes.c_int


def test_a_macos_that_refuses_says_so() -> None:
    read = footprint_reader("Darwin", SimpleNamespace(proc_pid_rusage=_Rusage(5, result=-1)))
    with pytest.raises(OSError, match="proc_pid_rusage ended with -1"):
        read()


@pytest.mark.parametrize(("system", "library"), [("Linux", None), ("Windows", None), ("Darwin", SimpleNamespace())])
def test_elsewhere_it_is_the_resident_set(system: str, library: Any) -> None:
    read = footprint_reader(system, library)
    before = read()
    with mmap.mmap(-1, 64 * 2**20) as fresh:  # what malloc has kept of earlier tests is resident already
        for page in range(0, len(fresh), mmap.PAGESIZE):
            fresh[page] = 1
        assert read() - before > 32 * 2**20
    assert 0.5 < read() / psutil.Process().memory_info().rss < 2
