"""Titled sections, as all reports on a terminal have them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from rich.padding import Padding
from rich.text import Text

if TYPE_CHECKING:
    from rich.console import RenderableType

BLANK = Text()


def section(title: str, blocks: Iterable[RenderableType] = (), style: str = "bold") -> Iterator[RenderableType]:
    """A blank line, the title, and what stands below it, indented; texts are taken as they are."""
    yield BLANK
    yield Text(title, style=style)
    yield from map(indented, blocks)


def indented(block: RenderableType) -> RenderableType:
    """``block`` two columns to the right."""
    return Padding(Text(block) if isinstance(block, str) else block, (0, 0, 0, 2))
