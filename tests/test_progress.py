"""Progress: silent where nobody looks, gone when the work is done."""

from __future__ import annotations

import io
import sys

import pytest

from mpsprobe.progress import SilentProgress, TerminalProgress, make_progress


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
