"""What a plugin does to the process ends with it."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from mpsprobe.plugins.containment import FEW, contained, outcome_of


def answer_of(function: Callable[[], Any]) -> Any:
    outcome = outcome_of(function)
    if outcome.error is not None:
        raise outcome.error
    return outcome.answer


def test_answers_and_errors_come_back() -> None:
    assert answer_of(lambda: "answer") == "answer"
    with pytest.raises(ZeroDivisionError):
        answer_of(lambda: 1 / 0)
    with pytest.raises(SystemExit) as caught:
        answer_of(lambda: sys.exit(3))
    assert caught.value.code == 3
    with pytest.raises(EOFError):
        answer_of(lambda: input("your name? "))
    assert answer_of(lambda: answer_of(lambda: 7)) == 7
    with pytest.raises(KeyError), contained():
        raise KeyError("x")


def test_ctrl_c_is_let_out() -> None:
    ended = _python(
        "import signal, threading, time; from mpsprobe.plugins.containment import outcome_of\n"
        "threading.Timer(0.5, signal.raise_signal, [signal.SIGINT]).start()\n"
        "outcome_of(lambda: [time.sleep(0.05) for _ in range(1000)])"
    )
    assert ended.stderr.strip().endswith("KeyboardInterrupt")


def test_the_process_is_as_before(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    streams = sys.stdin, sys.stdout, sys.stderr, sys.__stdout__
    filters, folder = list(warnings.filters), Path.cwd()

    def changes() -> str:
        sys.stdout.write("printed\n")
        os.write(1, b"written\n")
        subprocess.run([sys.executable, "-c", "print('a child')"], check=True)
        warnings.simplefilter("ignore")
        os.chdir(tmp_path)
        sys.stderr = sys.stdin = sys.stdout = None
        return "done"

    assert answer_of(changes) == "done"
    assert (sys.stdin, sys.stdout, sys.stderr, sys.__stdout__) == streams
    assert (list(warnings.filters), Path.cwd()) == (filters, folder)
    found = capfd.readouterr()
    assert found.out == "" and {"printed", "written", "a child"} <= set(found.err.split("\n"))


def _python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, input="in", capture_output=True, text=True, check=False, timeout=60)


def test_a_deleted_working_folder_and_a_closed_output_are_no_obstacle(tmp_path: Path) -> None:
    code = (
        "import os, sys, pathlib; from mpsprobe.plugins.containment import outcome_of\n"
        "here = pathlib.Path(sys.argv[1]); os.chdir(here); here.rmdir(); os.close(1)\n"
        "assert outcome_of(lambda: 5).answer == 5"
    )
    (tmp_path / "gone").mkdir()
    ended = _python(code, str(tmp_path / "gone"))
    assert ended.returncode == 0 or "WinError" in ended.stderr, ended.stderr


def state() -> dict[str, Any]:
    return {name: read() for name, (read, _) in FEW.items()}


def test_what_is_put_back(tmp_path: Path) -> None:
    before, importers = state(), (list(sys.meta_path), list(sys.path_hooks))
    with contained():
        os.chdir(tmp_path)
        sys.stdin = None
        os.environ["PYTORCH_ENABLE_MPS_FALLBACK"] = "1"
        del os.environ["PATH"]
        os.umask(0o777)
        sys.meta_path.clear()
        sys.path_hooks.clear()
        sys.setrecursionlimit(sys.getrecursionlimit() + 1)
        torch.set_default_dtype(torch.float64)
        torch.set_grad_enabled(False)
    assert state() == before and (sys.meta_path, sys.path_hooks) == importers


def test_a_closed_standard_error_is_open_again_and_new_folders_stay_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    given = list(sys.path)
    monkeypatch.setattr(sys, "path", list(given))
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with contained():
        sys.stderr.close()
        sys.path[:] = ["/first", *reversed(given[1:]), "/last"]
    assert sys.path == [*given, "/first", "/last"]
    assert not sys.stderr.closed and sys.stderr.fileno() == 2


CLOSES = """
import os, sys, tempfile
from mpsprobe.plugins.containment import contained
with contained():
    for number in (0, 1, 2):
        os.close(number)
    kept = [open(os.devnull) for _ in range(4)]  # take the places of the three
print("out", sys.stdin.read())
print("err", file=sys.stderr)
"""


def test_a_closed_descriptor_is_open_again() -> None:
    """In another process: it is that process's own output."""
    found = _python(CLOSES)
    assert (found.returncode, found.stdout, found.stderr) == (0, "out in\n", "err\n")
