"""``mpsprobe coverage --watch FILE:FUNCTION``: judged and drawn anew whenever a file of the person's own is saved.

torch and the plugins stay loaded. The person's modules are forgotten before each run, so that helpers that the file
imports from its folder are read anew too.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import linecache
import os
import shutil
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.live import Live
from rich.text import Text

from mpsprobe.errors import MpsprobeError, UsageError
from mpsprobe.output import write_stdout
from mpsprobe.progress import SilentProgress
from mpsprobe.schemas import CoverageReport
from mpsprobe.suggestions import in_short
from mpsprobe_coverage.commands.judge import Judging, judged
from mpsprobe_exporters.document import Bullet, Bullets, Document, Section
from mpsprobe_exporters.reports.coverage import by_module
from mpsprobe_exporters.terminal.drawing import text_of
from mpsprobe_exporters.terminal.screen import is_terminal, on_terminal

PACKAGES = frozenset({"site-packages", "dist-packages"})
"""Folders of what is installed, also in an environment inside the person's folder."""
EVERY = 0.2  # seconds between two looks at the files
MOST_PRINTED = 5  # lines of what the person's code printed


def watch(name: str, judging: Judging) -> None:
    """Judge ``name`` at each change until Ctrl-C; then the last picture stays on the screen.

    Raises:
        UsageError: it is no function of a file, or standard output is no terminal.
    """
    path = name.rpartition(":")[0]
    if not path.lower().endswith(".py"):
        raise UsageError("--watch is about a file that you edit", "Name a function in it: path/to/file.py:function.")
    if not is_terminal():
        raise UsageError("--watch draws on a terminal, and standard output is none", "Leave out --watch, or the pipe.")
    if len(judging.releases) > 1:
        raise UsageError("--watch is about one torch release", "Name one with --torch.")
    import torch  # noqa: F401 - so that it is no module of the person's, wherever it lies

    files, text = _Files(Path(path)), ""
    with contextlib.suppress(KeyboardInterrupt), Live(screen=True, auto_refresh=False) as live:
        while True:
            if files.changed():
                live.update(Text("loading" if not text else ""), refresh=not text)
                text = files.shown(name, judging)
                live.update(Text.from_ansi(text, no_wrap=True), refresh=True)
            time.sleep(EVERY)
    files.forget()
    write_stdout(text)


class _Files:
    """The person's own: the file, its neighbours, the modules that it imports from there, and where it failed."""

    def __init__(self, path: Path) -> None:
        self._path, self._folder = path.resolve(), path.resolve().parent
        self._failed: set[Path] = set()
        self._before = {module.partition(".")[0] for module in sys.modules}
        self._stamps: dict[Path, tuple[int, int] | None] = {}
        self._size: object = None  # of the terminal

    def changed(self) -> bool:
        """Whether any is another one than when this was asked before; the size of the terminal counts too."""
        now = shutil.get_terminal_size(), {file: _stamp(file) for file in self._all()}
        before, (self._size, self._stamps) = (self._size, self._stamps), now
        return before != now

    def forget(self) -> None:
        """Let them be imported anew."""
        for module, _ in self._modules():
            del sys.modules[module]

    def shown(self, name: str, judging: Judging) -> str:
        """The picture of a run now."""
        self.forget()
        importlib.invalidate_caches()
        linecache.checkcache()
        begun, printed = time.perf_counter(), io.StringIO()
        keeps, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # saved twice in a second, it would be stale
        self._failed.clear()
        try:
            with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
                report = judged(name, judging, SilentProgress())
            assert isinstance(report, CoverageReport)
            document = by_module(report)
        except Exception as error:  # noqa: BLE001 - the person's code, while it is edited
            self._failed |= set(_places(error))
            document = _wrong(error)
        finally:
            sys.dont_write_bytecode = keeps
        self._stamps |= {file: _stamp(file) for file in self._all() - self._stamps.keys()}  # of what it imported
        lines = printed.getvalue().splitlines()[-MOST_PRINTED:]
        said = [Section("What it printed", [Bullets([Bullet(line) for line in lines])])] if lines else []
        took = f"{name}, {time.strftime('%H:%M:%S')}, {time.perf_counter() - begun:.1f} s; Ctrl-C ends"
        document = document._replace(lines=[*document.lines, took], sections=[*document.sections, *said])
        return text_of(document, on_terminal(), everything=False)

    def _modules(self) -> Iterator[tuple[str, Path]]:
        for name, module in [*sys.modules.items()]:
            path = getattr(module, "__file__", None) or next(iter(getattr(module, "__path__", ())), None)
            top = name.partition(".")[0]
            if not isinstance(path, str) or top in self._before or top.startswith("mpsprobe"):
                continue
            if self._is_own(Path(path)):
                yield name, Path(path)

    def _is_own(self, path: Path) -> bool:
        return self._folder in path.parents and not PACKAGES.intersection(path.parts)

    def _all(self) -> set[Path]:
        failed = {path for path in self._failed if self._is_own(path)}
        return {self._path, *self._folder.glob("*.py"), *(path for _, path in self._modules()), *failed}


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        status = os.stat(path)  # noqa: PTH116
    except OSError:  # between two writes of an editor
        return None
    return status.st_mtime_ns, status.st_size


def _wrong(error: Exception) -> Document:
    message, hint = (error.message, error.hint) if isinstance(error, MpsprobeError) else (in_short(error), None)
    lines: list[Any] = (hint or "").splitlines()
    return Document("", headline=message, tone="bad", sections=[Section("", [Bullets([*map(Bullet, lines)])])])


def _places(error: BaseException | None) -> Iterator[Path]:
    """The files that an error, or what caused it, came through."""
    while error is not None:
        if isinstance(error, SyntaxError) and error.filename:
            yield Path(error.filename)
        yield from (Path(frame.filename) for frame in traceback.extract_tb(error.__traceback__))
        error = error.__cause__
