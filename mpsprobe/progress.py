"""Progress of long work: drawn on a terminal, silent everywhere else. Public: ``make_progress()``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Self

from mpsprobe.streams import QUIET

if TYPE_CHECKING:
    from rich.progress import Progress, Task, TaskID

_MODULES = 1_100  # what torch and a scanner add to `sys.modules`: 1,077 with torch 2.13 and mpsprobe-coverage


class SilentProgress:
    """Progress that is not shown: standard error is a file or a pipe. A context manager, as ``TerminalProgress``."""

    def start(self, total: int | None, what: str) -> None:
        """Begin ``total`` steps (``None``: not known) of ``what``."""

    def start_loading(self, steps: int) -> None:
        """Begin ``steps`` steps: the first, in which torch is imported, ends with the next ``start``."""

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
        self._drawn: Progress | None = None
        self._task: TaskID | None = None
        self._spent = 0.0  # seconds, at the end of the last step
        self._modules: int | None = None  # loaded when torch was not

    def start(self, total: int | None, what: str) -> None:
        """Draw the line; one that was drawn before goes, or has these steps after that of loading."""
        if self._drawn is not None and self._task is not None and self._modules is not None and total:
            self._drawn.update(self._task, total=total + 1)
            self.advance(what)
            return
        from rich import console, progress, text

        class Left(progress.ProgressColumn):
            render = staticmethod(lambda task: text.Text(self._left(task)))

        self.stop()
        counted = (progress.BarColumn(bar_width=24), progress.MofNCompleteColumn()) if total else ()
        described = progress.TextColumn("{task.description}", markup=False)
        columns = (progress.SpinnerColumn(), described, *counted, progress.TimeElapsedColumn(), Left())
        # Lines of the user's own code go above this one; standard output that is not a terminal stays what it is.
        above, terminal = sys.stdout is not None and sys.stdout.isatty(), console.Console(stderr=True)
        self._drawn = progress.Progress(*columns, console=terminal, transient=True, redirect_stdout=above)
        self._task = self._drawn.add_task(what, total=total)
        self._drawn.start()

    def start_loading(self, steps: int) -> None:
        """As ``start``; how far the first step is shows in the number of modules."""
        self.start(steps, "loading PyTorch")
        self._modules = len(sys.modules)

    def advance(self, what: str | None = None) -> None:
        """One step further; does nothing before ``start``."""
        if self._drawn is None or self._task is None:
            return
        self._spent, self._modules = self._drawn.tasks[0].elapsed or 0.0, None
        self._drawn.advance(self._task)
        if what is not None:
            self._drawn.update(self._task, description=what)

    def _left(self, task: Task) -> str:
        """What remains where all steps take as long as those before; nothing where that is not known or over."""
        done, spent, elapsed = task.completed, self._spent, task.elapsed or 0.0
        if self._modules is not None:
            done, spent = min((len(sys.modules) - self._modules) / _MODULES, 1), elapsed
        left = spent / done * (task.total or 0) - elapsed if done > 0.1 else 0  # sooner it is a guess
        return "" if left < 1 else f"about {left:.0f} s left" if left < 100 else f"about {left / 60:.0f} min left"

    def stop(self) -> None:
        """Remove the line."""
        if self._drawn is not None:
            self._drawn.stop()
            self._drawn = self._task = self._modules = None


def make_progress() -> SilentProgress:
    """Progress for this process; use it in a ``with`` statement so that the line goes also after an error."""
    drawn = not QUIET.get() and sys.stderr is not None and sys.stderr.isatty()
    return TerminalProgress() if drawn else SilentProgress()
