"""Progress of long work: drawn on a terminal, silent everywhere else. Public: ``make_progress()``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID


class SilentProgress:
    """Progress that nobody sees: standard error is a file or a pipe. A context manager, as ``TerminalProgress``."""

    def start(self, total: int | None, what: str) -> None:
        """Begin ``total`` steps (``None``: not known) of ``what``."""

    def advance(self, what: str | None = None) -> None:
        """One step is done; ``what`` is what comes next."""

    def stop(self) -> None:
        """All is done, or given up. May be called more than once."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()


class TerminalProgress(SilentProgress):
    """One line on standard error, which is gone when the work is done."""

    def __init__(self) -> None:
        self._drawn: RichProgress | None = None
        self._task: TaskID | None = None

    def start(self, total: int | None, what: str) -> None:
        """Draw the line; one that was drawn before goes."""
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        self.stop()
        counted = (BarColumn(bar_width=24), MofNCompleteColumn()) if total else ()
        columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), *counted, TimeElapsedColumn())
        self._drawn = Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False)
        self._task = self._drawn.add_task(what, total=total)
        self._drawn.start()

    def advance(self, what: str | None = None) -> None:
        """One step further; nothing where nothing was started."""
        if self._drawn is None or self._task is None:
            return
        self._drawn.advance(self._task)
        if what is not None:
            self._drawn.update(self._task, description=what)

    def stop(self) -> None:
        """Take the line away."""
        if self._drawn is not None:
            self._drawn.stop()
            self._drawn = self._task = None


def make_progress() -> SilentProgress:
    """Progress for this process; use it in a ``with`` statement so that the line goes also after an error."""
    drawn = sys.stderr is not None and sys.stderr.isatty()
    return TerminalProgress() if drawn else SilentProgress()
