"""Tables and lines on a terminal, as wide as it is, and in a pipe, as wide as the caller says."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, RenderableType

from mpsprobe.output import write_stdout


def console(pipe_width: int) -> Console:
    """Standard output; ``pipe_width`` in columns."""
    stdout = Console(highlight=False)
    return stdout if stdout.is_terminal else Console(highlight=False, width=pipe_width)


def drawn(parts: Iterable[RenderableType], on: Console) -> str:
    """The text of ``parts``, one below the other."""
    with on.capture() as capture:
        for part in parts:
            on.print(part)
    # rich fills cells up to the width of their column; nobody wants that in a file
    return "\n".join(line.rstrip() for line in capture.get().splitlines())


def show(parts: Iterable[RenderableType], pipe_width: int) -> None:
    """Write ``parts`` to standard output."""
    write_stdout(drawn(parts, console(pipe_width)))
