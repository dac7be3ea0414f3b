"""The processor's name, from whichever source a system has; and the small tools that are asked for it."""

from __future__ import annotations

import platform
import sys
from unittest.mock import MagicMock, Mock

import pytest
import torch

from mpsprobe_devices import processor
from mpsprobe_devices.commands import MOST_CHARACTERS, ask
from mpsprobe_devices.processor import processor_name


def _answers(monkeypatch: pytest.MonkeyPatch, system: str, printed: dict[str, str | None], torch_says: str) -> None:
    monkeypatch.setattr(platform, "system", lambda: system)
    monkeypatch.setattr(platform, "processor", lambda: "")
    monkeypatch.setattr(platform, "machine", lambda: "arm64")
    monkeypatch.setattr(processor, "ask", lambda command: printed.get(command[0]))
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"cpu_name": torch_says}, raising=False)


@pytest.mark.parametrize(
    ("system", "printed", "torch_says", "name"),
    [
        ("Darwin", {"sysctl": "Apple M3 Max"}, "", "Apple M3 Max"),
        ("Darwin", {"sysctl": "Apple M3 Max"}, "something else", "Apple M3 Max"),
        ("Darwin", {}, "", "arm64"),
        ("Linux", {"sysctl": "not asked"}, "AMD  EPYC", "AMD EPYC"),
        ("Linux", {"lscpu": "CPU(s): 2\nModel name:   Neoverse-V2\n"}, "Unknown", "Neoverse-V2"),
        ("Linux", {"lscpu": "Model name: -"}, "", "arm64"),
        ("Linux", {"lscpu": "Model name: " + "x" * 5000}, "", "x" * processor.MOST_CHARACTERS),
        ("Windows", {}, "", "arm64"),
    ],
)
def test_the_name(
    monkeypatch: pytest.MonkeyPatch, system: str, printed: dict[str, str | None], torch_says: str, name: str
) -> None:
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
    registry.OpenKey.assert_called_once_with("machine", processor.REGISTRY_KEY)
    key.__exit__.assert_called_once()


def test_capabilities_of_a_release_without_them(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse = Mock(side_effect=RuntimeError("cpuinfo does not know this processor"))
    monkeypatch.setattr(torch.cpu, "get_capabilities", refuse, raising=False)
    assert processor.capabilities() == {}
    monkeypatch.delattr(torch.cpu, "get_capabilities")
    assert processor.capabilities() == {}
    assert processor_name() not in ("", "CPU")


def test_a_tool_is_asked() -> None:
    for code, expected in {
        "print(' 42 ')": "42",
        "print('x' * 100_000)": "x" * MOST_CHARACTERS,
        "import sys; sys.stdout.buffer.write(b'M\\xff1')": "M\N{REPLACEMENT CHARACTER}1",
        "import sys; print('half'); sys.exit(1)": None,
        "pass": None,
    }.items():
        assert ask([sys.executable, "-c", code]) == expected


def test_a_tool_that_hangs_or_is_not_there_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mpsprobe_devices.commands.TIMEOUT_S", 1.0)
    assert ask([sys.executable, "-c", "import time; time.sleep(60)"]) is None
    assert ask(["mpsprobe-has-no-such-tool"]) is None
