"""Uncaught exceptions are printed without our frames."""

from __future__ import annotations

import sys
import threading
import traceback

import pytest

from mpsprobe_coverage.device import attribution
from mpsprobe_programs.running.tracebacks import without_our_frames


def _ours(function: object, file: str) -> object:
    """A function of one of our files that calls ``function``."""
    names: dict[str, object] = {"function": function}
    exec(compile("def call():\n    function()\n", file, "exec"), names)
    return names["call"]


def _torchs(function: object) -> object:
    return _ours(function, __import__("torch").__file__)


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
    assert _frames(_ours(_torchs(_fails), "/ours/device.py")) == ["_frames", "_fails"]
    assert _frames(_ours(_torchs(_fails), attribution.__file__)) == ["_frames", "call", "_fails"]
    assert "/ours/" not in capsys.readouterr().err
    assert before == (sys.excepthook, sys.__excepthook__, threading.excepthook, threading.__excepthook__)
