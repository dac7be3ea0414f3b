"""What the machine is: what ``mpsprobe doctor`` says, the processor's name, and how much memory the process takes."""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import sys
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock, Mock

import psutil
import pytest
import torch

from mpsprobe_devices import doctor, machine
from mpsprobe_devices.doctor import FALLBACK, HIGH, LOW, PROFILE, findings, variables
from mpsprobe_devices.machine import MOST_PRINTED, RusageInfo, ask, footprint_reader, processor_name


def test_variables() -> None:
    for values, levels in (
        ({}, []),
        ({FALLBACK: "0"}, []),
        ({FALLBACK: "1"}, ["note"]),
        ({FALLBACK: " 7 "}, ["note"]),
        ({FALLBACK: "true"}, ["error"]),
        ({FALLBACK: ""}, ["error"]),
        ({FALLBACK: "-"}, ["error"]),
        ({FALLBACK: "99999999999"}, ["error"]),
        ({FALLBACK: "12abc"}, ["note"]),  # as C reads numbers
        ({FALLBACK: "+3"}, ["note"]),
        ({FALLBACK: "-4 "}, ["note"]),
        ({FALLBACK: "x1"}, ["error"]),
        ({FALLBACK: "\uff11"}, ["error"]),
        ({LOW: "1.0", HIGH: "1.2"}, []),
        ({HIGH: "0.5"}, ["error"]),  # below the other's default
        ({HIGH: "0.0"}, ["warning"]),
        ({HIGH: "all", LOW: "nan"}, ["error", "error"]),
        ({HIGH: "-1"}, ["error"]),
        ({PROFILE: "0x3ff"}, []),
        ({PROFILE: "1024"}, ["error"]),
        ({PROFILE: "yes"}, ["error"]),
    ):
        assert [one.level for one in variables(values)] == levels


def test_elsewhere_than_on_a_mac(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    [one] = findings({"torch": "2.13.0"})
    assert (one.level, one.message) == ("note", "MPS needs a Mac with Apple silicon")
    assert [one.level for one in findings({"torch": None})] == ["error", "note"]


def test_on_a_mac_the_gpu_and_rosetta_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    monkeypatch.setattr(platform, "machine", lambda: "arm64")
    monkeypatch.setattr(torch.backends.mps, "is_built", lambda: True)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    [one] = findings({"torch": "2.13.0"})
    assert (one.level, one.message) == ("ok", "the GPU can be used through MPS")
    with monkeypatch.context() as patch:
        patch.setattr(platform, "machine", lambda: "x86_64")
        for answer, level in (("1", "error"), ("0", "ok"), (None, "ok")):
            patch.setattr(doctor, "ask", lambda command, answer=answer: answer)
            assert [one.level for one in findings({"torch": "2.13.0"})] == [level]
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    [one] = findings({"torch": "2.13.0"})
    assert one.level == "error" and "finds no MPS device" in one.message


def _answers(monkeypatch: pytest.MonkeyPatch, system: str, printed: dict[str, str | None], torch_says: str) -> None:
    monkeypatch.setattr(platform, "system", lambda: system)
    monkeypatch.setattr(platform, "processor", lambda: "")
    monkeypatch.setattr(platform, "machine", lambda: "arm64")
    monkeypatch.setattr(machine, "ask", lambda command: printed.get(command[0]))
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"cpu_name": torch_says}, raising=False)


def test_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    for system, printed, torch_says, name in (
        ("Darwin", {"sysctl": "Apple M3 Max"}, "", "Apple M3 Max"),
        ("Darwin", {"sysctl": "Apple M3 Max"}, "something else", "Apple M3 Max"),
        ("Darwin", {}, "", "arm64"),
        ("Linux", {"sysctl": "not asked"}, "AMD  EPYC", "AMD EPYC"),
        ("Linux", {"lscpu": "CPU(s): 2\nModel name:   Neoverse-V2\n"}, "Unknown", "Neoverse-V2"),
        ("Linux", {"lscpu": "Model name: -"}, "", "arm64"),
        ("Linux", {"lscpu": "Model name: " + "x" * 5000}, "", "x" * machine.LONGEST_NAME),
        ("Windows", {}, "", "arm64"),
    ):
        _answers(monkeypatch, system, printed, torch_says)
        assert processor_name() == name


def test_windows_has_it_in_the_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    _answers(monkeypatch, "Windows", {}, "")
    key = MagicMock()
    key.__enter__.return_value = "key"
    registry = Mock(HKEY_LOCAL_MACHINE="machine", OpenKey=Mock(return_value=key))
    registry.QueryValueEx = lambda key, name: (f"{key} {name}  Ryzen", 1)
    monkeypatch.setitem(sys.modules, "winreg", registry)
    assert processor_name() == "key ProcessorNameString Ryzen"
    registry.OpenKey.assert_called_once_with("machine", machine.REGISTRY_KEY)
    key.__exit__.assert_called_once()


def test_capabilities_of_a_release_without_them(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse = Mock(side_effect=RuntimeError("cpuinfo does not know this processor"))
    monkeypatch.setattr(torch.cpu, "get_capabilities", refuse, raising=False)
    assert machine.capabilities() == {}
    monkeypatch.delattr(torch.cpu, "get_capabilities")
    assert machine.capabilities() == {}
    assert processor_name() not in ("", "CPU")


def test_a_tool_is_asked() -> None:
    for code, expected in {
        "print(' 42 ')": "42",
        "print('x' * 100_000)": "x" * MOST_PRINTED,
        "import sys; sys.stdout.buffer.write(b'M\\xff1')": "M\N{REPLACEMENT CHARACTER}1",
        "import sys; print('half'); sys.exit(1)": None,
        "pass": None,
    }.items():
        assert ask([sys.executable, "-c", code]) == expected


def test_a_tool_that_hangs_or_is_not_there_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mpsprobe_devices.machine.TIMEOUT_S", 1.0)
    assert ask([sys.executable, "-c", "import time; time.sleep(60)"]) is None
    assert ask(["mpsprobe-has-no-such-tool"]) is None


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
    assert ctypes.sizeof(RusageInfo) == 16 + 10 * 8 < machine.ROOM
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
