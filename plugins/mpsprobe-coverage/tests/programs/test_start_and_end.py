"""Before the program: the device opens once torch was imported; after it: exceptions without our frames."""

from __future__ import annotations

import importlib.util
import json
import math
import sys
import threading
import traceback
import types
from pathlib import Path

import pytest
import torch

from mpsprobe_coverage.programs import parent, session
from mpsprobe_coverage.programs.parent import _ended
from mpsprobe_coverage.programs.process import AfterImport, Process
from mpsprobe_coverage.programs.settings import Settings
from mpsprobe_coverage.programs.tracebacks import without_our_frames
from mpsprobe_coverage.recording import attribution


def test_settings_survive_the_environment_and_the_first_process_is_the_program(tmp_path: Path) -> None:
    settings = Settings(
        folder=str(tmp_path), name="a.py", arguments=["--x", "é"], torch="2.6.0", chip="m2-pro", lines=True,
        prefix=sys.prefix,
    )  # fmt: skip
    assert Settings(**json.loads(settings.as_variable())) == settings
    settings.offer()
    assert settings.claim()
    assert not settings.claim()
    settings.note_process()
    assert settings.processes() == [settings.process_report]


@pytest.mark.parametrize(
    ("file", "text", "why"),
    [
        ("report.json", "{", "changed the report"),
        ("refusal.json", "[1,", "before Python did"),
        ("refusal.json", '["a hint of its own", null, true]', "a hint of its own"),
        ("process-1.json", "{}", "before Python did"),
    ],
)
def test_what_a_program_writes_among_the_reports_leaves_its_exit_code(
    file: str, text: str, why: str, tmp_path: Path
) -> None:
    settings = Settings(folder=str(tmp_path), name="a.py", arguments=[], torch="2.6.0", lines=True, prefix=sys.prefix)
    settings.note_process()
    for path in (tmp_path / file, tmp_path / "process-1"):
        path.write_text(text, encoding="utf-8")
    ended = _ended(3, settings)
    assert (ended.code, ended.report) == (3, None) and why in ended.why


def test_without_the_folder_of_the_reports_a_program_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "gone"
    settings = Settings(folder=str(folder), name="a.py", arguments=[], torch="2.6.0", lines=True, prefix=sys.prefix)
    settings.note_process()
    Process(settings, itself=True).end()
    folder.mkdir()
    settings.refusal.with_suffix(".unfinished").mkdir()
    Process(settings, itself=True).end()
    assert _ended(3, settings).code == 3
    assert "before Python did" in _ended(3, settings).why
    monkeypatch.setattr(parent, "LEAST_FREE", math.inf)
    assert _ended(3, settings).why.startswith("there is no room for it on the disk\nMake room")


@pytest.mark.parametrize(
    ("torch", "why"),
    [
        (types.ModuleType("torch"), "what it imports as torch is not PyTorch: <module 'torch'>"),
        (torch, "unexpected ValueError: no such release\nThis is a bug, unless the program changes modules of Python"),
    ],
)
def test_a_program_whose_device_cannot_be_opened_goes_on(
    torch: types.ModuleType, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Settings) -> None:
        raise ValueError("no such release")

    monkeypatch.setattr(session, "Session", fail)
    monkeypatch.setitem(sys.modules, "torch", torch)
    settings = Settings(folder=str(tmp_path), name="a.py", arguments=[], torch="2.6.0", lines=True, prefix=sys.prefix)
    process = Process(settings, itself=True)
    process.open()
    process.end()
    ended = _ended(0, settings)
    assert (ended.code, ended.report) == (0, None) and ended.why.startswith(why)


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


def _ours(function: object, file: str) -> object:
    """A function of one of our files that calls ``function``."""
    names: dict[str, object] = {"function": function}
    exec(compile("def call():\n    function()\n", file, "exec"), names)
    return names["call"]


def _fails() -> None:
    raise ValueError("no")


def _frames(call: object) -> list[str]:
    with without_our_frames(lambda file: file in ("/ours/device.py", attribution.__file__)):
        try:
            call()  # type: ignore[operator]
        except ValueError as error:
            sys.excepthook(type(error), error, error.__traceback__)
            assert sys.excepthook is sys.__excepthook__
            return [frame.name for frame in traceback.extract_tb(error.__traceback__)]
    raise AssertionError


def test_frames_of_ours_and_what_they_call_in_torch_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    before = sys.excepthook, sys.__excepthook__, threading.excepthook, threading.__excepthook__
    assert _frames(_ours(_fails, "/ours/device.py")) == ["_frames", "_fails"]
    assert _frames(_ours(_ours(_fails, torch.__file__), "/ours/device.py")) == ["_frames", "_fails"]
    assert _frames(_ours(_ours(_fails, torch.__file__), attribution.__file__)) == ["_frames", "call", "_fails"]
    assert "/ours/" not in capsys.readouterr().err
    assert before == (sys.excepthook, sys.__excepthook__, threading.excepthook, threading.__excepthook__)
