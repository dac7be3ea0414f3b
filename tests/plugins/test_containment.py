"""What a plugin does to the process ends with it, and it cannot wait for ever."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from mpsprobe.plugins.containment import TIMEOUT_VARIABLE, Hangs, contained, each_within_limit, time_limit
from mpsprobe.plugins.process_state import few_things, put_few_back

SHORT = 0.3  # seconds


def within_limit(function: Callable[[], Any], seconds: float) -> Any:
    [outcome] = each_within_limit([function], seconds)
    if outcome.error is not None:
        raise outcome.error
    return outcome.answer


@pytest.mark.parametrize("hangs", [lambda: time.sleep(60), threading.Semaphore(0).acquire], ids=["sleep", "lock"])
def test_what_hangs_is_left_behind_and_the_next_question_is_answered(hangs: Callable[[], None]) -> None:
    started = time.monotonic()
    with pytest.raises(Hangs, match=r"did not end within 0\.3 s \(MPSPROBE_PLUGIN_TIMEOUT"):
        within_limit(hangs, SHORT)
    assert time.monotonic() - started < 30
    assert within_limit(lambda: 42, 30) == 42


def test_answers_and_errors_come_back_with_and_without_a_limit() -> None:
    for seconds in (0, 30):
        assert within_limit(lambda: "answer", seconds) == "answer"
        with pytest.raises(ZeroDivisionError):
            within_limit(lambda: 1 / 0, seconds)
        with pytest.raises(SystemExit) as caught:
            within_limit(lambda: sys.exit(3), seconds)
        assert caught.value.code == 3
        with pytest.raises(EOFError):
            within_limit(lambda: input("your name? "), seconds)
    assert within_limit(lambda: within_limit(lambda: 7, 30), 30) == 7  # it does not wait for itself
    with pytest.raises(KeyError), contained():
        raise KeyError("x")


class _Late:
    """Goes on after its time, then asks for plugins itself; says what it found."""

    def __init__(self) -> None:
        self.go_on, self.ended, self.found = threading.Event(), threading.Event(), []

    def __call__(self) -> None:
        self.go_on.wait(60)
        with pytest.raises(Hangs, match="nobody waits"):
            within_limit(lambda: self.found.append(sys.stdout), 30)
        self.ended.set()


def test_a_thread_that_was_given_up_changes_nothing_any_more() -> None:
    streams, late = (sys.stdin, sys.stdout, sys.stderr, sys.__stdout__), _Late()

    def another() -> None:  # it is contained while the one before goes on
        late.go_on.set()
        assert late.ended.wait(30)

    with pytest.raises(Hangs, match="did not end"):
        within_limit(late, SHORT)
    within_limit(another, 60)
    assert late.found and (sys.stdin, sys.stdout, sys.stderr, sys.__stdout__) == streams


def test_a_thread_is_given_up_also_where_ctrl_c_comes_while_it_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    late, start = _Late(), threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        start(thread)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(threading.Thread, "start", interrupted)
        within_limit(late, 30)
    late.go_on.set()
    assert late.ended.wait(30)


@pytest.mark.parametrize("seconds", [0, 30])
def test_the_process_is_as_before(seconds: float, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    streams = sys.stdin, sys.stdout, sys.stderr, sys.__stdout__
    filters, folder = list(warnings.filters), Path.cwd()

    def changes() -> str:
        sys.stdout.write("printed\n")
        os.write(1, b"written\n")
        subprocess.run([sys.executable, "-c", "print('a child')"], check=True)
        warnings.simplefilter("ignore")
        os.chdir(tmp_path)
        sys.stderr = sys.stdin = sys.stdout = None  # type: ignore[assignment]
        return "done"

    assert within_limit(changes, seconds) == "done"
    assert (sys.stdin, sys.stdout, sys.stderr, sys.__stdout__) == streams
    assert (list(warnings.filters), Path.cwd()) == (filters, folder)
    found = capfd.readouterr()
    assert found.out == "" and {"printed", "written", "a child"} <= set(found.err.split("\n"))


ENDING = """
import signal, sys, threading, time
from mpsprobe.plugins import containment
def spin():
    while True: pass
def wait(): time.sleep(600)
def start(daemon=None): threading.Thread(target=wait, daemon=daemon).start()
"""


HANG = "[bool(one.error) for one in containment.each_within_limit([wait, spin, int, wait, int], 0.3)]"
INHERITED = "containment.each_within_limit([start], 30)[0].error, containment.keeps_alive()"
WAITED_FOR = "containment.each_within_limit([lambda: start(False)], 30)[0].error, containment.keeps_alive()"
LEFT = "(Hangs('it left a thread running; one that waits should be a daemon'), True)"


@pytest.mark.parametrize(
    ("code", "expected"),
    [(HANG, "[True, True, False, True, False]"), (INHERITED, "(None, False)"), (WAITED_FOR, LEFT)],
    ids=["hangs", "a thread", "a thread that Python waits for"],
)
def test_the_process_ends_whatever_is_left(code: str, expected: str) -> None:
    ends = "import os; sys.stdout.flush(); containment.keeps_alive() and os._exit(0)"
    ended = _python(f"{ENDING}print(({code}))\n{ends}")
    assert (ended.returncode, ended.stdout.strip()) == (0, expected), ended.stderr


def test_ctrl_c_ends_the_waiting() -> None:
    send = "threading.Timer(0.5, signal.raise_signal, [signal.SIGINT]).start()"
    ended = _python(f"{ENDING}{send}\ncontainment.each_within_limit([wait], 600)")
    assert ended.stderr.strip().endswith("KeyboardInterrupt")


def _python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, input="in", capture_output=True, text=True, check=False, timeout=60)


def test_the_limit_is_a_number_of_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = dict.fromkeys(["", "soon", "-1", "nan", "inf"], 10.0)
    for text, seconds in {"3": 3.0, "0": 0.0, "0.5": 0.5, **usual}.items():
        monkeypatch.setenv(TIMEOUT_VARIABLE, text)
        assert time_limit() == seconds


def test_a_deleted_working_folder_and_a_closed_output_are_no_obstacle(tmp_path: Path) -> None:
    code = (
        "import os, sys, pathlib; from mpsprobe.plugins.containment import each_within_limit\n"
        "here = pathlib.Path(sys.argv[1]); os.chdir(here); here.rmdir(); os.close(1)\n"
        "assert each_within_limit([lambda: 5], 30)[0].answer == 5"
    )
    (tmp_path / "gone").mkdir()
    ended = _python(code, str(tmp_path / "gone"))
    assert ended.returncode == 0 or "WinError" in ended.stderr, ended.stderr


def test_the_few_things_need_no_more_than_themselves(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before = few_things()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", None)
    monkeypatch.setenv("PYTORCH_ENABLE_MPS_FALLBACK", "1")
    monkeypatch.delenv("PATH")
    os.umask(0o777)
    sys.setrecursionlimit(sys.getrecursionlimit() + 1)
    torch.set_default_dtype(torch.float64)
    torch.set_grad_enabled(False)
    put_few_back(before)
    assert few_things() == before


def test_a_closed_standard_error_is_open_again_and_new_folders_stay_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    given = list(sys.path)
    monkeypatch.setattr(sys, "path", list(given))
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    before = few_things()
    sys.stderr.close()
    sys.path[:] = ["/first", *reversed(given[1:]), "/last"]
    put_few_back(before)
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
