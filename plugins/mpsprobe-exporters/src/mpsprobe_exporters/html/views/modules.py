"""Modules: the model as a tree, with the time that each part takes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mpsprobe_exporters.html.figures import bar
from mpsprobe_exporters.html.markup import Markup, element, joined, name
from mpsprobe_exporters.html.scales import bounded
from mpsprobe_exporters.plain_text import plural
from mpsprobe_exporters.units import duration, number, percent

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
    return joined(
        joined(
            [
                element("h3", phase) if len(phases) > 1 else None,
                _tree(cell, [one for one in cell.modules if one.phase == phase][:MOST]),
            ]
        )
        for phase in phases[:8]
    )


def _tree(cell: ProfileCell, found: list[ModuleTime]) -> Markup:
    on_device = any(one.device_ns for one in found)
    root = _Node("(model)")
    for one in found:
        node = root
        for part in _path(one.module):
            node = node.inner.setdefault(part, _Node(part))
        node.time = one
    whole = max(_total(root.time, on_device) if root.time else 0, *(_total(one, on_device) for one in found))
    titles = TITLES if on_device else TITLES[:6]
    caption = f"{plural(len(found), 'module')} over {plural(cell.profiled_steps, 'profiled step')}; "
    caption += "time on the device, and on the host beside it" if on_device else "time on the host"
    head = (element("th", title, scope="col", class_="n" if index > 1 else None) for index, title in enumerate(titles))
    rows = _rows(root, 0, on_device, bounded(whole))
    levels = _levels(root)
    made = element(
        "table",
        element("caption", caption, class_="quiet"),
        element("thead", element("tr", *head)),
        element("tbody", *rows),
        class_="data tree",
        data_open=max((level for level in range(len(levels)) if sum(levels[: level + 1]) <= OPEN), default=0),
    )
    return element("div", made, class_="scroll", tabindex="0", role="region", aria_label=caption)


def _levels(node: _Node) -> list[int]:
    """How many nodes there are on each level below, and including, ``node``."""
    found, row = [1], list(node.inner.values())
    while row:
        found.append(len(row))
        row = [inner for one in row for inner in one.inner.values()]
    return found


def _path(module: str) -> list[str]:
    parts = module.split(".", DEEPEST - 1) if module else []
    return [part or "(none)" for part in parts]


def _total(one: ModuleTime, on_device: bool) -> int:
    return (one.device_ns or 0) if on_device else one.host_ns


def _rows(node: _Node, level: int, on_device: bool, whole: float) -> Iterator[Markup]:
    yield element("tr", *_cells(node, level, on_device, whole), data_level=level)
    for inner in node.inner.values():
        yield from _rows(inner, level + 1, on_device, whole)


def _cells(node: _Node, level: int, on_device: bool, whole: float) -> Iterator[Markup]:
    label = name(node.label, 60)
    one = node.time
    yield element("th", label, scope="row", class_=f"l{level}")
    if one is None:
        yield element("td", "not timed itself", colspan=7 if on_device else 5, class_="quiet")
        return
    total, own = bounded(_total(one, on_device)), (one.self_device_ns or 0) if on_device else one.self_host_ns
    share = min(1.0, total / whole) if whole > 0 else 0.0
    yield element("td", name(one.type, 40, ""))
    yield element("td", number(one.calls), class_="n")
    yield element("td", duration(total), class_="n")
    yield element("td", bar(share), element("span", percent(share), class_="pc"), class_="n")
    yield element("td", duration(bounded(own)), class_="n")
    if on_device:
        yield element("td", duration(bounded(one.host_ns)), class_="n")
        yield element("td", duration(bounded(one.self_host_ns)), class_="n")
