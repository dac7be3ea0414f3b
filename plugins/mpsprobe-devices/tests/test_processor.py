"""The processor's name, from whichever source a system has; and the small tools that are asked for it."""

from __future__ import annotations

import platform
import sys
from types import SimpleNamespace
from typing import Any

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
    opened: list[Any] = []

    class Key:
        def __enter__(self) -> str:
            return "key"

        def __exit__(self, *error: object) -> None:
            opened.append("closed")

    def open_key(root: str, path: str) -> Key:
        opened.append((root, path))
        return Key()

    registry = SimpleNamespace(
        HKEY_LOCAL_MACHINE="machine", OpenKey=open_key, QueryValueEx=lambda key, name: (f"{key} {name}  Ryzen", 1)
    )
    monkeypatch.setitem(sys.modules, "winreg", registry)
    assert processor_name() == "key ProcessorNameString Ryzen"
    assert opened == [("machine", processor.REGISTRY_KEY), "closed"]


def test_here_it_is_more_than_the_architecture() -> None:
    assert processor_name() not in ("", "CPU")


def test_capabilities_of_a_release_without_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> dict[str, Any]:
        raise RuntimeError("cpuinfo does not know this processor")

    monkeypatch.setattr(torch.cpu, "get_capabilities", refuse, raising=False)
    assert processor.capabilities() == {}
    monkeypatch.delattr(torch.cpu, "get_capabilities")
    assert processor.capabilities() == {}


def test_a_tool_is_asked() -> None:
    assert ask([sys.executable, "-c", "print(' 42 ')"]) == "42"
    assert len(ask([sys.executable, "-c", "print('x' * 100_000)"]) or "") == MOST_CHARACTERS


@pytest.mark.parametrize(
    "code",
    ["import sys; print('half'); sys.exit(1)", "pass", "import time; time.sleep(60)"],
    ids=["fails", "says nothing", "hangs"],
)
def test_a_tool_that_does_not_answer_is_no_error(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    monkeypatch.setattr("mpsprobe_devices.commands.TIMEOUT_S", 2.0)
    assert ask([sys.executable, "-c", code]) is None


def test_a_tool_that_is_not_there_is_no_error() -> None:
    assert ask(["mpsprobe-has-no-such-tool"]) is None


def test_bytes_that_are_no_text_do_no_harm() -> None:
    assert ask([sys.executable, "-c", "import sys; sys.stdout.buffer.write(b'M\\xff1')"]) == "M�1"
