"""Writing files: all of it or nothing, and no traces. Progress: silent where nobody looks, gone when it is done."""

from __future__ import annotations

import errno
import io
import os
import subprocess
import sys
from itertools import product
from pathlib import Path
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpsprobe.errors import OutputError
from mpsprobe.output import check_writable, deliver, write_atomically, write_folder, write_stdout
from mpsprobe.progress import SilentProgress, TerminalProgress, make_progress
from mpsprobe.streams import is_reader_gone


@given(st.text() | st.binary())
def test_a_new_file_holds_just_the_data(tmp_path_factory: pytest.TempPathFactory, data: str | bytes) -> None:
    path = tmp_path_factory.mktemp("data") / "report.json"
    check_writable(path)
    assert list(path.parent.iterdir()) == []
    write_atomically(str(path), data)
    assert path.read_bytes() == (data if isinstance(data, bytes) else data.encode())
    assert list(path.parent.iterdir()) == [path]


def test_permissions_are_kept_and_new_files_get_the_usual_ones(tmp_path: Path) -> None:
    kept, new, usual = tmp_path / "kept", tmp_path / "new", tmp_path / "usual"
    kept.touch()
    kept.chmod(0o640)
    usual.touch()
    write_atomically(kept, "x")
    write_atomically(new, "x")
    if sys.platform != "win32":  # which knows read-only and nothing else
        assert kept.stat().st_mode & 0o777 == 0o640
    assert new.stat().st_mode == usual.stat().st_mode


def test_a_link_is_followed(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    try:
        link.symlink_to(target)
    except OSError:  # Windows without the right to make links: the plain file is then the whole truth
        link = target
    write_atomically(link, "new")
    assert target.read_text() == "new"
    assert link.is_symlink() == (link != target)


def test_a_wrong_place_is_told_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("file", "protected"):
        (tmp_path / name).write_text("old")
    (tmp_path / "protected").chmod(0o444)
    monkeypatch.setattr(os, "access", lambda path, _: Path(path).name != "protected")  # root is held by nothing
    for place, problem in (
        (".", "it is a folder"),
        ("", "it is a folder"),
        ("none/x", "its folder does not exist"),
        ("file/x", "its folder does not exist"),
        ("x" * 5000, "cannot write to"),
        ("nul\0character", "cannot write to"),
        ("protected", "write-protected"),
    ):
        for write in (check_writable, lambda path: write_atomically(path, "new")):
            with pytest.raises(OutputError, match=problem) as caught:
                write(place)
            assert caught.value.message.isprintable()
        assert {one.name: one.read_text() for one in tmp_path.iterdir()} == {"file": "old", "protected": "old"}


def test_whatever_interrupts_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, full = tmp_path / "report", OSError(errno.ENOSPC, "No space left on device")
    path.write_text("old")
    for step, failure in product(((os, "fsync"), (Path, "replace")), (full, KeyboardInterrupt())):
        with monkeypatch.context() as patch, pytest.raises(OutputError if failure is full else KeyboardInterrupt):
            patch.setattr(*step, Mock(side_effect=failure))
            write_atomically(path, "new")
        assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


KILLED = """
import os, pathlib, signal
from mpsprobe.output import TemporaryFolder
with TemporaryFolder({parent!r}) as folder:
    (pathlib.Path(folder) / "half").touch()
    print(folder, flush=True)
    input()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_folder_of_a_killed_process_goes_with_the_next_one(tmp_path: Path) -> None:
    if sys.platform == "win32":
        return  # it stays there
    code = [sys.executable, "-c", KILLED.format(parent=str(tmp_path))]
    with subprocess.Popen(code, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        left = Path(process.stdout.readline().rstrip())
        write_atomically(tmp_path / "x", "while it lives")
        assert sorted(tmp_path.iterdir()) == [left, tmp_path / "x"] and list(left.iterdir()) == [left / "half"]
        process.stdin.write("\n")
    others = [
        tmp_path / name for name in ("mpsprobe-temporary-mine", "mpsprobe-temporary-opentoal", "mpsprobe-abcdefgh")
    ]
    for other in others:
        other.mkdir()
    (tmp_path / "mpsprobe-temporary-alink123").symlink_to(others[0])
    write_atomically(tmp_path / "x", "afterwards")
    assert not left.exists() and len(list(tmp_path.iterdir())) == 5


def test_delivery(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    deliver("text", tmp_path / "x")
    assert capsysbinary.readouterr().out == b""
    deliver("text", None)
    deliver("text\n", "-")
    deliver(b"\x00\x01", "-")
    assert capsysbinary.readouterr().out.replace(b"\r\n", b"\n") == b"text\ntext\n\x00\x01"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    with pytest.raises(OutputError, match="binary"):
        deliver(b"\x00", None)
    monkeypatch.setattr(sys, "stdout", None)
    write_stdout("nobody reads this")


def test_a_closed_pipe_is_told_apart_from_other_failures() -> None:
    assert is_reader_gone(BrokenPipeError()) and is_reader_gone(OSError(errno.EPIPE, "x"))
    assert not is_reader_gone(OSError(errno.ENOSPC, "x")) and not is_reader_gone(ValueError())


@pytest.mark.parametrize("path", ["run/../../x", "run", "/run/x", "run\\x", "other/x"])
def test_no_file_of_a_folder_leads_elsewhere(tmp_path: Path, path: str) -> None:
    with pytest.raises(ValueError):
        write_folder(tmp_path / "out", [("run/first", [b"1"]), (path, [b"2"])])
    assert list(tmp_path.iterdir()) == []


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def _terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    return stream


def test_nothing_is_drawn_into_a_file_and_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    with make_progress() as progress:
        progress.start(2, "tables")
        progress.advance("more")
    assert (type(progress), stream.getvalue()) == (SilentProgress, "")
    monkeypatch.setattr(sys, "stderr", None)
    assert type(make_progress()) is SilentProgress


@pytest.mark.parametrize("total", [3, None])
def test_a_terminal_shows_what_is_done(monkeypatch: pytest.MonkeyPatch, total: int | None) -> None:
    terminal = _terminal(monkeypatch)
    with make_progress() as progress:
        progress.advance("too early is harmless")
        progress.start(total, "kernel [tables]")
        progress.advance("torch 2.9.0")
    progress.stop()
    assert isinstance(progress, TerminalProgress)
    assert "torch 2.9.0" in terminal.getvalue()


def test_the_steps_after_loading_follow_on_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = _terminal(monkeypatch)
    monkeypatch.setattr("mpsprobe.progress._MODULES", 1)
    with make_progress() as progress:
        assert isinstance(progress, TerminalProgress)
        progress.start_loading(3)
        monkeypatch.setitem(sys.modules, "made_for_this_test", sys)
        drawn = progress._drawn
        assert drawn is not None and drawn.tasks[0].start_time is not None
        drawn.tasks[0].start_time -= 30
        assert progress._left(drawn.tasks[0]).startswith("about 60 s")  # one of three steps in half a minute
        progress.start(2, "building it")
        assert (drawn.tasks[0].completed, drawn.tasks[0].total) == (1, 3)
    assert "loading PyTorch" in terminal.getvalue() and "building it" in terminal.getvalue()


def test_an_error_takes_the_line_away(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = _terminal(monkeypatch)
    with pytest.raises(ZeroDivisionError), make_progress() as progress:
        progress.start(1, "work")
        raise ZeroDivisionError
    hide, show = "\x1b[?25l", "\x1b[?25h"
    assert terminal.getvalue().count(hide) == terminal.getvalue().count(show) == 1
