"""What happens before the program: the device opens once torch was imported, and not sooner."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from mpsprobe_programs.running.beginning import AfterImport
from mpsprobe_programs.running.settings import Settings


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(
        folder=str(tmp_path), name="a.py", arguments=("--x", "é"), device="virtual", values="real", torch="2.6.0",
        macos=None, chip="m2-pro", keep_going=True, lines=True, prefix=sys.prefix,
    )  # fmt: skip


def test_settings_survive_the_environment(settings: Settings) -> None:
    assert Settings.from_variable(settings.as_variable()) == settings


def test_the_first_process_is_the_program(settings: Settings) -> None:
    assert settings.claim()
    assert not settings.claim()
    settings.note_process()
    assert settings.processes() == [settings.process_report]


def test_a_finder_waits_for_the_import_and_not_for_the_question(
    plugin_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (plugin_folder / "awaited.py").write_text("value = 1\n")
    calls: list[int] = []
    finder = AfterImport("awaited", lambda: calls.append(sys.modules["awaited"].value))
    monkeypatch.setattr(sys, "meta_path", [finder, *sys.meta_path])
    assert importlib.util.find_spec("awaited") is not None
    assert importlib.util.find_spec("awaited.nothing".partition(".")[0]) is not None
    assert not calls
    module = importlib.import_module("awaited")
    assert calls == [1]
    assert finder not in sys.meta_path
    assert module.__spec__ is not None and "exec_module" not in vars(module.__spec__.loader)
