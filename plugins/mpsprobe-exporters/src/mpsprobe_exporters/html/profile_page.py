"""A profile as a page: the overview, and for each configuration what was measured of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from mpsprobe_exporters import profile_answer
from mpsprobe_exporters.html.charts import configuration_name
from mpsprobe_exporters.html.markup import Markup, element
from mpsprobe_exporters.html.overview import overview
from mpsprobe_exporters.html.page import View, page
from mpsprobe_exporters.html.views import fallbacks, memory, modules, operators, probes, steps, trace
from mpsprobe_exporters.plain_text import one_line, shortened

if TYPE_CHECKING:
    from mpsprobe.schemas import ProfileCell, ProfileReport

# What a browser draws and scrolls without effort, and what keeps the file of a usual report below 2 MB: an event takes
# some 25 bytes.
MOST_EVENTS = 20_000
MOST_EVENTS_OF_ALL = 40_000
FEWEST_EVENTS = 1_000

Draw = Callable[["ProfileReport", "ProfileCell"], Markup | None]

VIEWS: tuple[tuple[str, str, Draw, str], ...] = (
    ("steps", "Steps", steps.steps, "No step was timed."),
    ("operators", "Operators", operators.operators, "Operators were not timed."),
    (
        "kernels",
        "Kernels",
        operators.device_work,
        "No kernel is in the trace of this configuration, or there is no trace.",
    ),
    ("modules", "Modules", modules.modules, "Modules were not timed."),
    ("memory", "Memory", memory.memory, "Memory was not measured."),
    ("fallbacks", "Fallbacks", fallbacks.fallbacks, "No operator is known to leave MPS."),
    ("trace", "Trace", lambda report, cell: None, "No trace was taken."),
    ("probes", "Probes", probes.probes, "No other probe was read."),
)


def profile_page(report: ProfileReport) -> str:
    """The document."""
    chosen = _first(report)
    views = [View("overview", "Overview", list(overview(report, chosen)))]
    absent = []
    for key, title, draw, nothing in VIEWS:
        drawn = (
            list(_traces(report))
            if key == "trace"
            else [(i, draw(report, cell)) for i, cell in enumerate(report.cells)]
        )
        blocks = [(index, block) for index, block in drawn if block]
        if blocks:
            views.append(
                View(
                    key, title, [*_cells(report, blocks, chosen), element("p", nothing, class_="nothing", hidden=True)]
                )
            )
        else:
            absent += [nothing] if _is_missed(report, key) else []
    if absent:
        views[0] = views[0]._replace(body=[*views[0].body, _absent(absent)])
    names = list(dict.fromkeys(one_line(one.name, 60) for one in report.workloads))
    lines = [*shortened(profile_answer.workload_lines(report), 3), f"{profile_answer.method_line(report)}."]
    return page(
        ", ".join(shortened(names, 3)),
        f"{profile_answer.short_answer(report)}.",
        lines,
        views,
        _selector(report, chosen),
    )


def _is_missed(report: ProfileReport, key: str) -> bool:
    """Whether a reader may wonder why a view is not there: without fallbacks and kernels there is nothing to show."""
    return key != "fallbacks" and not (key == "kernels" and any(cell.trace for cell in report.cells))


def _first(report: ProfileReport) -> int:
    """The configuration to begin with: the first that was looked into, else the first that was measured, else any."""
    looked_into = (index for index, cell in enumerate(report.cells) if cell.operators or cell.trace)
    measured = (index for index, cell in enumerate(report.cells) if cell.step is not None)
    return next(looked_into, next(measured, 0))


def _traces(report: ProfileReport) -> Iterator[tuple[int, Markup | None]]:
    """A time line for each configuration that has a trace; many of them share the room."""
    found = [index for index, cell in enumerate(report.cells) if cell.trace is not None and cell.trace.start_ns]
    most = max(FEWEST_EVENTS, min(MOST_EVENTS, MOST_EVENTS_OF_ALL // max(1, len(found))))
    for index in found:
        yield index, trace.trace(report.cells[index], most)


def _cells(report: ProfileReport, blocks: list[tuple[int, Markup]], chosen: int) -> Iterator[Markup]:
    """Blocks of configurations, folded away but for the chosen one, of which the script then shows one at a time."""
    if len(report.cells) == 1:
        yield element("div", blocks[0][1], data_cell=0)
        return
    for index, block in blocks:
        title = configuration_name(report, report.cells[index])
        yield element("details", element("summary", title), block, data_cell=index, open=index == chosen)


def _selector(report: ProfileReport, chosen: int) -> Markup | None:
    if len(report.cells) < 2:
        return None
    options = (
        element("option", _option(report, cell), value=index, selected=index == chosen)
        for index, cell in enumerate(report.cells)
    )
    return element(
        "label", element("select", *options, id="cell", aria_label="Configuration"), class_="chooser", hidden=True
    )


def _option(report: ProfileReport, cell: ProfileCell) -> str:
    return configuration_name(report, cell) + ("" if cell.step is not None else " (failed)")


def _absent(said: list[str]) -> Markup:
    hint = "mpsprobe profile --probe all takes what this device and system can give."
    return element("p", f"Not in this report: {' '.join(said)} {hint}", class_="quiet")
