"""Long names broken where their parts meet."""

from __future__ import annotations

from mpsprobe_exporters.plain_text import JOINTS


def fold_name(name: str, width: int, indent: int = 2) -> list[str]:
    """``name`` in lines of at most ``width`` characters, those after the first indented.

    A line ends at a joint of the name where there is one in its second half, else where it is full.
    """
    lines = []
    margin = ""
    while len(margin + name) > width:
        room = max(width - len(margin), 1)
        joints = [found.start() for found in JOINTS.finditer(name) if room // 2 <= found.start() <= room]
        cut = max(joints, default=room) or room
        lines.append(margin + name[:cut])
        name, margin = name[cut:], " " * min(indent, width - 1)
    return [*lines, margin + name] if name or not lines else lines
