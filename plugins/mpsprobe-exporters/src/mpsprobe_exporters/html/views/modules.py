"""Modules: the model as a tree, with the time that each part takes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mpsprobe_exporters.document import Kind, written
from mpsprobe_exporters.html import drawing
from mpsprobe_exporters.html.markup import Markup, element, joined, name
from mpsprobe_exporters.plain_text import plural
from mpsprobe_exporters.reports.profile_measurements import each_step
from mpsprobe_exporters.units import fraction

if TYPE_CHECKING:
    from mpsprobe.schemas import ModuleTime, ProfileCell, ProfileReport

DEEPEST = 12  # levels of the tree; what lies deeper is named by the rest of its path
MOST = 3000  # modules
OPEN = 40  # rows that are seen at first, at most

TITLES = ("Module", "Type", "Calls", "Total", "Share", "Self", "Total host", "Self host")


@dataclass(slots=True)
class _Node:
    """A part of the model; ``time`` is ``None`` where only the parts inside it were timed."""

    label: str
    time: ModuleTime | None = None
    inner: dict[str, _Node] = field(default_factory=dict)


def modules(report: ProfileReport, cell: ProfileCell) -> Markup | None:
    """The modules of a cell as a tree for each phase."""
    if not cell.modules:
        return None
    phases = list(dict.fromkeys(one.phase for one in cell.modules))
    parts: list[Markup] = []
    for phase in phases[:8]:
        parts += [element("h3", phase)] if len(phases) > 1 else []
        parts.append(_tree(cell, [one for one in cell.modules if one.phase == phase][:MOST]))
    return joined(parts)


def _tree(cell: ProfileCell, found: list[ModuleTime]) -> Markup:
    on_device = any(one.device_ns for one in found)
    root = _Node("(model)")
    for one in found:
        node = root
        for part in one.module.split(".", DEEPEST - 1) if one.module else []:
            node = node.inner.setdefault(part, _Node(part or "(none)"))
        node.time = one
    whole = max((one.device_ns or 0) if on_device else one.host_ns for one in found)
    titles = TITLES if on_device else TITLES[:6]
    caption = f"{plural(len(found), 'module')}, in one step; "
    caption += "time on the device, then on the host" if on_device else "time on the host"
    head = (element("th", title, scope="col", class_="n" if index > 1 else None) for index, title in enumerate(titles))
    rows = list(_rows(root, 0))
    levels = [level for level, _ in rows]
    made = element(
        "table",
        element("caption", caption, class_="quiet"),
        element("thead", element("tr", *head)),
        element("tbody", *(_row(cell, node, level, on_device, whole) for level, node in rows)),
        class_="data tree",
        data_open=max((last for last in set(levels) if sum(level <= last for level in levels) <= OPEN), default=0),
    )
    return element("div", made, class_="scroll", tabindex="0", role="region", aria_label=caption)


def _rows(node: _Node, level: int) -> Iterator[tuple[int, _Node]]:
    yield level, node
    for inner in node.inner.values():
        yield from _rows(inner, level + 1)


def _row(cell: ProfileCell, node: _Node, level: int, on_device: bool, whole: int) -> Markup:
    head = element("th", name(node.label, 60), scope="row", class_=f"l{level}")
    one = node.time
    if one is None:
        nothing = element("td", "not timed itself", colspan=7 if on_device else 5, class_="quiet")
        return element("tr", head, nothing, data_level=level)
    total, own = (one.device_ns or 0, one.self_device_ns or 0) if on_device else (one.host_ns, one.self_host_ns)
    amounts: list[tuple[int, Kind]] = [(one.calls, "number"), (total, "time"), (own, "time")]
    amounts += [(one.host_ns, "time"), (one.self_host_ns, "time")] if on_device else []
    drawn = [element("td", written(each_step(cell, value), kind), class_="n") for value, kind in amounts]
    drawn.insert(2, element("td", drawing.cell(fraction(total, whole), "part"), class_="n"))
    return element("tr", head, element("td", name(one.type, 40, "")), *drawn, data_level=level)
